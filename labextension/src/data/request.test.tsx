import { nullTranslator } from '@jupyterlab/translation';
import { act, cleanup, render, screen } from '@testing-library/react';
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { FakeServer } from '../testing/server';
import { aJob, someJobs } from '../testing/values';
import { FeedView } from '../ui/feedview';
import { HpcClient } from './client';
import { ApiError } from './request';

const trans = nullTranslator.load('jupyter_hpc');
const NO_ANSWER = 'The Jupyter server does not answer.';
const BROKEN = 'The connection broke in the middle of the answer.';

let server: FakeServer;
let client: HpcClient;

beforeEach(() => {
  server = new FakeServer();
  server.answers = { jobs: { body: someJobs([aJob('1')]) } };
  client = new HpcClient(server.settings);
});

afterEach(() => {
  cleanup();
  client.dispose();
});

async function failure(asked: Promise<unknown>): Promise<ApiError> {
  const error = await asked.then(
    () => null,
    (reason: unknown) => reason
  );
  expect(error).toBeInstanceOf(ApiError);
  return error as ApiError;
}

describe('a network failure', () => {
  it('is an error with a sentence, a next step and its cause', async () => {
    server.reachable = false;
    const error = await failure(client.job('5'));
    expect(error).toMatchObject({ message: NO_ANSWER, status: 0 });
    expect(error.hint).toContain('try again');
    expect(String(error.cause)).toContain('no connection');
  });

  it('is one as well when it comes in the middle of the answer', async () => {
    server.breaks = true;
    const error = await failure(client.partitions());
    expect(error).toMatchObject({ message: BROKEN, status: 0 });
    expect(error.hint).toContain('try again');
  });

  it('does not say that nothing was done where that is not known', async () => {
    server.reachable = false;
    const path = 'a.ipynb';
    for (const asked of [
      client.act('cancel', ['1']),
      client.submit({ path })
    ]) {
      expect((await failure(asked)).hint).toContain('may have been done');
    }
    const { hint } = await failure(client.convert({ path }));
    expect(hint).not.toContain('may have been done');
  });
});

describe('an answer of somebody else', () => {
  it.each(['<html>Log in</html>', ''])('is no value: %j', async body => {
    server.answers = { partitions: { body } };
    const error = await failure(client.partitions());
    expect(error.message).toContain('Something else answered');
    expect(error.hint).toContain('log in');
  });
});

describe('a panel', () => {
  const shown = (): string[] =>
    screen.getAllByRole('status').map(each => each.textContent);
  const panel = (): JSX.Element => (
    <FeedView feed={client.jobs} trans={trans}>
      {({ jobs }) => <ul>{jobs.map(job => job.name).join()}</ul>}
    </FeedView>
  );

  it('shows why there is nothing', async () => {
    server.reachable = false;
    render(panel());
    await act(() => client.jobs.refresh());
    expect(shown()[0]).toContain(NO_ANSWER);
    expect(shown()[0]).toContain('try again');
  });

  it.each([
    [NO_ANSWER, { reachable: false }],
    [BROKEN, { breaks: true }]
  ])(
    'tells who asked at once, beside the old value: %s',
    async (words, how) => {
      render(panel());
      await act(() => client.refreshJobs());
      expect(screen.queryAllByRole('status')).toEqual([]);
      Object.assign(server, how);
      await act(() => client.refreshJobs());
      expect(shown()[0]).toContain(words);
      expect(screen.getByRole('list').textContent).toBe('job 1');
      Object.assign(server, { reachable: true, breaks: false });
      await act(() => client.refreshJobs());
      expect(screen.queryAllByRole('status')).toEqual([]);
    }
  );
});

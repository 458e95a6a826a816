import { nullTranslator } from '@jupyterlab/translation';
import {
  cleanup,
  fireEvent,
  render,
  screen,
  within
} from '@testing-library/react';
import * as React from 'react';
import { afterEach, describe, expect, it, vi } from 'vitest';

import type { IRunAgain } from '../data/api';
import { HpcClient } from '../data/client';
import { aRun, aSubmit, aSweep, someRuns } from '../testing/runs';
import { FakeServer, settled } from '../testing/server';
import { RunsPage } from './page';

const clients: HpcClient[] = [];
const trans = nullTranslator.load('jupyter_hpc');

globalThis.ResizeObserver ??= class {
  observe(): void {}
  unobserve(): void {}
  disconnect(): void {}
};

const HOLDING = {
  id: '8',
  run_dir: '/home/alice/run',
  files: 4,
  bytes: 2048,
  largest: [{ path: 'output/model.pt', bytes: 2000 }],
  mark: 'abc',
  message: '',
  hint: ''
};

const AGAIN: IRunAgain = {
  path: 'train.ipynb',
  frozen: null,
  changed: false,
  recorded: true,
  choices: { request: { gpus: '2' } }
};

function show(
  answers: FakeServer['answers'] = {},
  begin: (() => void) | null = null
): { server: FakeServer; done: string[] } {
  const server = new FakeServer();
  server.answers = {
    runs: {
      body: someRuns([
        aSweep('9', [0.5, 0.1]),
        aSubmit('8', {}, [
          aRun('8', { parameters: { lr: 7 }, metrics: { loss: 0.3 } })
        ])
      ])
    },
    ...answers
  };
  const done: string[] = [];
  const client = new HpcClient(server.settings);
  clients.push(client);
  render(
    <RunsPage
      {...{ client, begin, trans }}
      baseUrl="http://server/"
      notebook=""
      asked={0}
      openJob={id => done.push(`open ${id}`)}
      submit={(path, choices) =>
        done.push(`submit ${path} ${JSON.stringify(choices)}`)
      }
      figures={{
        list: path =>
          Promise.resolve([
            { name: 'loss.png', path: `${path}/loss.png`, isFolder: false }
          ]),
        address: path => Promise.resolve(`http://server/files/${path}`)
      }}
    />
  );
  return { server, done };
}

const click = (role: string, name: RegExp | string): void => {
  fireEvent.click(screen.getByRole(role, { name }));
};

async function press(label: string): Promise<void> {
  const buttons = document.querySelectorAll<HTMLElement>('.jp-Dialog-button');
  [...buttons].find(({ textContent }) => textContent === label)!.click();
  await settled();
}

/** The dialog that asks; fails while there is none. */
function question(): Element {
  const dialog = document.querySelector('.jp-Dialog');
  expect(dialog).toBeTruthy();
  return dialog!;
}

function remove(): HTMLElement {
  return screen.getByRole('button', { name: 'Delete…' });
}

afterEach(() => {
  cleanup();
  clients.splice(0).forEach(client => client.dispose());
});

describe('the page of runs', () => {
  it('says what could be here, and offers the first step', async () => {
    const done: string[] = [];
    show({ runs: { body: someRuns([]) } }, () => done.push('begin'));
    expect(screen.getByText('Asking the server…')).toBeTruthy();
    await screen.findByText(/No run was submitted yet/);
    click('button', 'Run a notebook as batch job');
    expect(done).toEqual(['begin']);
  });

  it('says why there is no list', async () => {
    show({
      runs: { status: 502, body: { message: 'No Python.', hint: 'Load one.' } }
    });
    await screen.findByText('No Python.');
    expect(screen.getByText('Load one.')).toBeTruthy();
  });

  it('opens a sweep and a job', async () => {
    const { done } = show();
    fireEvent.click(await screen.findByRole('button', { expanded: false }));
    click('button', '9_2');
    expect(done).toEqual(['open 9_2']);
  });

  it('is sorted by heads that tell their order', async () => {
    show();
    fireEvent.click(await screen.findByRole('button', { name: /^loss/ }));
    const head = screen.getByRole('columnheader', { name: /^loss/ });
    expect(head.getAttribute('aria-sort')).toBe('ascending');
    click('button', /^loss/);
    expect(head.getAttribute('aria-sort')).toBe('descending');
    const [, first] = screen.getAllByRole('row');
    expect(
      within(first).getByRole('checkbox', { name: 'Choose 8' })
    ).toBeTruthy();
  });

  it('says why a button cannot be used yet', async () => {
    const { server } = show();
    const compare = await screen.findByRole('button', { name: 'Compare' });
    expect(compare.title).toBe('Choose two runs or more.');
    expect(remove().getAttribute('aria-disabled')).toBe('true');
    fireEvent.click(remove());
    expect(server.requests).not.toContain('GET runs/contents');
  });

  it('compares what differs, with curves and figures', async () => {
    const line = { run: '9_1', points: [[1, 2]] };
    show({
      'runs/curves': {
        body: {
          curves: [{ name: 'loss', x: 'epoch', better: 'less', lines: [line] }]
        }
      }
    });
    await screen.findByRole('checkbox', { name: 'Choose 9' });
    click('checkbox', 'Choose all runs that are shown');
    click('button', 'Compare');
    const table = screen.getByRole('table', { name: 'What differs' });
    const lr = within(table).getByRole('rowheader', { name: 'lr' });
    expect(lr.parentElement?.textContent).toBe('lr127');
    const loss = within(table).getByRole('rowheader', { name: 'loss' });
    expect(loss.parentElement?.textContent).toBe('loss0.50.1 best0.3');
    expect(
      await screen.findAllByRole('img', { name: /loss.png of run/ })
    ).toHaveLength(3);
    await screen.findByRole('heading', { name: 'loss' });
    click('button', 'Close');
    expect(screen.queryByRole('table', { name: 'What differs' })).toBeNull();
  });

  it('runs one again with what was chosen for it', async () => {
    const { done } = show({ 'runs/8/again': { body: AGAIN } });
    await screen.findByRole('checkbox', { name: 'Choose 8' });
    click('checkbox', 'Choose 8');
    click('button', 'Run again…');
    const asked = 'submit train.ipynb {"request":{"gpus":"2"}}';
    await vi.waitFor(() => expect(done).toEqual([asked]));
  });

  it('deletes only after a question that names what goes', async () => {
    const { server } = show({
      'runs/contents': {
        body: {
          runs: [HOLDING, { ...HOLDING, id: '9', message: 'Run 9 runs.' }]
        }
      },
      'runs/delete': { body: { message: 'Done.', hint: '', results: [] } }
    });
    await screen.findByRole('checkbox', { name: 'Choose 8' });
    click('checkbox', 'Choose 8');
    click('button', 'Delete…');
    const dialog = await vi.waitFor(question);
    for (const said of ['/home/alice/run', '4 files', '2 KiB', 'Run 9 runs.']) {
      expect(dialog.textContent).toContain(said);
    }
    await vi.waitFor(() =>
      expect(document.activeElement?.textContent).toBe('Back')
    );
    await press('Back');
    expect(server.requests).not.toContain('POST runs/delete');
    await vi.waitFor(() =>
      expect(remove().getAttribute('aria-disabled')).toBe('false')
    );
    click('button', 'Delete…');
    await vi.waitFor(question);
    await press('Delete the Run');
    await screen.findByText('0 runs chosen');
    expect(server.requests).toContain('POST runs/delete');
    await vi.waitFor(() =>
      expect(server.requests.filter(each => each === 'GET runs')).toHaveLength(
        2
      )
    );
  });
});

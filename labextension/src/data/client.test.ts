import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { FakeServer, setHidden, settled } from '../testing/server';
import {
  aFinishedJob,
  aGpu,
  aJob,
  aSession,
  someGpus,
  someJobs
} from '../testing/values';
import { HpcClient } from './client';

describe('the stream', () => {
  let server: FakeServer;
  let client: HpcClient;

  beforeEach(() => {
    vi.useFakeTimers();
    server = new FakeServer();
    client = new HpcClient(server.settings);
  });

  afterEach(() => {
    client.dispose();
    setHidden(false);
    vi.useRealTimers();
  });

  it('is opened by the first watcher and lists what is watched', async () => {
    expect(server.sockets).toHaveLength(0);
    const session = client.session.watch();
    const gpus = client.gpus.watch();
    await settled();
    expect(server.socket.url).toBe(
      'ws://server/jupyter-hpc/stream?token=secret'
    );
    server.socket.open();
    expect(server.socket.watched).toEqual([
      { topic: 'session' },
      { topic: 'gpus' }
    ]);
    gpus.dispose();
    await settled();
    expect(server.socket.watched).toEqual([{ topic: 'session' }]);
    session.dispose();
    await settled();
    expect(server.socket.watched).toEqual([]);
    expect(server.sockets).toHaveLength(1);
  });

  it('counts watchers, so that one that leaves does not silence another', async () => {
    const first = client.session.watch();
    client.session.watch();
    await settled();
    server.socket.open();
    first.dispose();
    await settled();
    expect(server.socket.watched).toEqual([{ topic: 'session' }]);
  });

  it('brings values and says when they came', async () => {
    client.gpus.watch();
    await settled();
    server.socket.open();
    const changed = vi.fn();
    client.gpus.changed.connect(changed);
    const data = someGpus([aGpu()]);
    server.socket.say({ topic: 'gpus', data });
    expect(client.gpus.value).toEqual(data);
    expect(client.gpus.receivedAt).toBe(Date.now());
    expect(changed).toHaveBeenCalledOnce();
  });

  it('keeps the last value when the server tells of a problem', async () => {
    client.gpus.watch();
    await settled();
    server.socket.open();
    server.socket.say({ topic: 'gpus', data: someGpus([aGpu()]) });
    const error = { message: 'The driver is gone.', hint: 'Ask the site.' };
    server.socket.say({ topic: 'gpus', error });
    expect(client.gpus.value?.gpus).toHaveLength(1);
    expect(client.gpus.error).toMatchObject(error);
    server.socket.say({ topic: 'gpus', data: someGpus([]) });
    expect(client.gpus.error).toBeNull();
  });

  it('watches nothing while the tab is hidden', async () => {
    client.session.watch();
    await settled();
    server.socket.open();
    setHidden(true);
    await settled();
    expect(server.socket.watched).toEqual([]);
    setHidden(false);
    await settled();
    expect(server.socket.watched).toEqual([{ topic: 'session' }]);
  });

  it('repeats its list, because the server forgets a silent tab', async () => {
    client.session.watch();
    await settled();
    server.socket.open();
    const before = server.socket.sent.length;
    vi.advanceTimersByTime(120_000);
    expect(server.socket.sent.length).toBe(before + 2);
  });

  it('is opened again after a cut, in silence, and asks meanwhile', async () => {
    server.answers = { session: { body: aSession({ host: 'again' }) } };
    client.session.watch();
    await settled();
    server.socket.open();
    server.socket.say({ topic: 'session', data: aSession() });
    server.socket.close();
    await settled();
    expect(client.session.error).toBeNull();
    await vi.advanceTimersByTimeAsync(1_500);
    expect(client.session.value?.host).toBe('again');
    expect(server.sockets).toHaveLength(2);
    server.socket.open();
    expect(server.socket.watched).toEqual([{ topic: 'session' }]);
  });

  it('mentions a server out of reach only after some attempts', async () => {
    client.session.watch();
    await settled();
    server.socket.open();
    server.socket.say({ topic: 'session', data: aSession() });
    server.reachable = false;
    const errors: unknown[] = [];
    for (let attempt = 0; attempt < 3; attempt += 1) {
      server.socket.close();
      await settled();
      errors.push(client.session.error);
      await vi.advanceTimersByTimeAsync(30_000);
    }
    expect(errors.slice(0, 2)).toEqual([null, null]);
    expect(client.session.error?.message).toBe(
      'The Jupyter server does not answer.'
    );
    expect(client.session.value?.host).toBe('gpu01');
  });

  it('says what is missing when there is no server extension', async () => {
    client.session.watch();
    await settled();
    server.socket.close();
    await vi.advanceTimersByTimeAsync(10);
    expect(client.session.error?.message).toContain('is not enabled');
    expect(client.session.error?.hint).toContain('Install jupyter-hpc');
  });

  it('waits longer and longer between attempts, and no attempt while hidden', async () => {
    client.session.watch();
    await settled();
    for (const pause of [1_000, 2_000, 4_000]) {
      const before = server.sockets.length;
      server.socket.close();
      await vi.advanceTimersByTimeAsync(pause - 10);
      expect(server.sockets.length).toBe(before);
      await vi.advanceTimersByTimeAsync(20);
      expect(server.sockets.length).toBe(before + 1);
    }
    setHidden(true);
    const before = server.sockets.length;
    server.socket.close();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(server.sockets.length).toBe(before);
  });

  it('knows the server clock', async () => {
    client.session.watch();
    await settled();
    server.socket.open();
    server.socket.say({ topic: 'session', data: aSession({ now: 5000 }) });
    vi.advanceTimersByTime(7_000);
    expect(client.now()).toBeCloseTo(5007);
  });
});

describe('the list of jobs', () => {
  let server: FakeServer;
  let client: HpcClient;

  beforeEach(async () => {
    server = new FakeServer();
    client = new HpcClient(server.settings);
    client.jobs.watch();
    await settled();
    server.socket.open();
    server.socket.say({
      topic: 'jobs',
      data: someJobs([aJob('1'), aJob('2')], [aFinishedJob('0')])
    });
  });

  afterEach(() => client.dispose());

  const update = (changes: object): void =>
    server.socket.say({
      topic: 'jobs',
      data: { taken_at: 0, age: 0, problem: null, next_poll: 60, ...changes }
    });
  const ids = (): string[] | undefined =>
    client.jobs.value?.jobs.map(job => job.id);

  it('takes changed, new and removed rows', () => {
    const changed = [aJob('2', { state: 'COMPLETING' }), aJob('3')];
    update({ version: 2, base: 1, changed, removed: ['1'] });
    expect(ids()).toEqual(['2', '3']);
    expect(client.jobs.value?.jobs[0].state).toBe('COMPLETING');
    expect(client.jobs.value?.finished.jobs).toHaveLength(1);
  });

  it('takes news without rows as "nothing changed"', () => {
    update({ version: 1, age: 3 });
    expect(ids()).toEqual(['1', '2']);
    expect(client.jobs.value?.age).toBe(3);
  });

  it('lets the finished jobs grow old with the news', () => {
    update({ version: 1, age: 3, finished_age: 240 });
    expect(client.jobs.value?.finished.age).toBe(240);
    expect(client.jobs.value?.finished.jobs).toHaveLength(1);
  });

  it('takes a whole new list', () => {
    update({ version: 9, jobs: [aJob('7')] });
    expect(ids()).toEqual(['7']);
  });

  it('asks for everything when it has missed something', async () => {
    server.answers = { jobs: { body: someJobs([aJob('8')]) } };
    update({ version: 5, base: 4, changed: [], removed: [] });
    await settled();
    await vi.waitFor(() => expect(ids()).toEqual(['8']));
    expect(server.requests).toContain('GET jobs');
  });
});

describe('a request', () => {
  const server = new FakeServer();
  const client = new HpcClient(server.settings);
  afterEach(() => client.dispose());

  it('rejects with the sentence of the server', async () => {
    const body = { message: 'Not your job.', hint: 'Ask its owner.' };
    server.answers = { 'jobs/12%2C13/cancel': { status: 403, body } };
    await expect(client.act('cancel', ['12', '13'])).rejects.toMatchObject({
      ...body,
      status: 403
    });
    expect(server.requests).toContain('POST jobs/12%2C13/cancel');
  });

  it('says what a page of somebody else means', async () => {
    server.answers = { 'jobs/5': { status: 502, body: '<html>proxy</html>' } };
    await expect(client.job('5')).rejects.toMatchObject({
      message: expect.stringContaining('502')
    });
  });
});

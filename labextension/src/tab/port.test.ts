import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import { LocalPort, mayBeLocal } from './port';
import { nameTitle } from './title';

const START = {
  action: 'start',
  label: 'Start again',
  confirm: [],
  parameters: { question: 'again-1', where: 'page' }
};

function answer(
  open: boolean,
  state: string,
  buttons: unknown[] = []
): unknown {
  const status = { cluster: 'mini-2', state, text: 'Over.', job_id: '7' };
  return { open, status, view: { buttons } };
}

describe('LocalPort', () => {
  let says: () => Promise<Response>;
  const requests: Request[] = [];

  beforeEach(() => {
    vi.useFakeTimers();
    requests.length = 0;
    vi.stubGlobal('fetch', (url: string, init?: RequestInit) => {
      requests.push(new Request(`http://localhost${url}`, init));
      return says();
    });
  });

  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  const replies = (value: unknown, status = 200): void => {
    says = () =>
      Promise.resolve(new Response(JSON.stringify(value), { status }));
  };

  it.each([
    [true, 'ready', 'open'],
    [false, 'ready', 'cut'],
    [false, 'reconnecting', 'cut'],
    [false, 'pending', 'starting'],
    [false, 'ended', 'ended']
  ])('open %s and %s is %s', async (open, state, phase) => {
    replies(answer(open, state));
    const port = new LocalPort(() => true);
    await port.look();
    expect([port.phase, port.name]).toEqual([phase, 'mini-2']);
  });

  it('never asks another server again', async () => {
    replies({ message: 'Not found' }, 404);
    const port = new LocalPort(() => true);
    await port.look();
    await port.look();
    expect(port.phase).toBeNull();
    expect(requests.length).toBe(1);
  });

  it('names itself, so that it is waited for at the end', async () => {
    replies(answer(true, 'ready'));
    const port = new LocalPort(() => true);
    await port.look();
    await port.look();
    const [first, second] = requests.map(one => new URL(one.url).search);
    expect(first).toMatch(/^\?tab=[\w-]{8,64}$/);
    expect(second).toBe(first);
  });

  it('asks nobody on another host', async () => {
    await new LocalPort(() => false).look();
    expect(requests.length).toBe(0);
    expect(mayBeLocal('hub.example.org')).toBe(false);
    expect(mayBeLocal('localhost')).toBe(true);
  });

  it('is gone after two failures, and keeps its name', async () => {
    replies(answer(true, 'ready'));
    const port = new LocalPort(() => true);
    await port.look();
    says = () => Promise.reject(new TypeError('refused'));
    await port.look();
    expect(port.phase).toBe('open');
    await port.look();
    expect([port.phase, port.name]).toEqual(['gone', 'mini-2']);
  });

  it('acts with the secret of the tab and names the question', async () => {
    replies(answer(false, 'ended', [START, { ...START, confirm: ['Sure?'] }]));
    const port = new LocalPort(() => true);
    await port.look();
    expect(port.status?.offers.length).toBe(1);
    replies({ secret: 's3cret' });
    await port.act(port.status!.offers[0]).catch(() => undefined);
    const acted = requests.find(one => one.url.endsWith('/actions/start'))!;
    expect(acted.headers.get('X-Jupyter-Hpc-Secret')).toBe('s3cret');
    expect(await acted.json()).toEqual(START.parameters);
  });
});

describe('nameTitle', () => {
  it('puts the name in front of whatever the title is', async () => {
    let name = '';
    document.title = 'JupyterLab';
    const apply = nameTitle(() => name);
    name = 'mini-2';
    apply();
    expect(document.title).toBe('mini-2 · JupyterLab');
    document.title = 'a.ipynb - JupyterLab';
    await vi.waitFor(() =>
      expect(document.title).toBe('mini-2 · a.ipynb - JupyterLab')
    );
  });
});

import { nullTranslator } from '@jupyterlab/translation';
import {
  cleanup,
  fireEvent,
  render,
  screen,
  waitFor,
  within
} from '@testing-library/react';
import * as React from 'react';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';

import type { IJobOverview, IJobView } from '../data/api';
import { HpcClient } from '../data/client';
import { PolledFeed } from '../data/feed';
import { FakeServer } from '../testing/server';
import { aJobView, anOverview, aShownRun, someJobs } from '../testing/values';
import type { IFile } from './files';
import { meanLoad } from './gpuload';
import { JobView } from './view';

const trans = nullTranslator.load('jupyter_hpc');

const SWEEP = anOverview({
  is_sweep: true,
  decided_by: 'loss',
  better: 'less',
  progress: { unit: 'run', done: 1, of: 2, ends: null },
  runs: [
    aShownRun('7_0', { parameters: { lr: 0.1, n: 1 }, best: 0.5 }),
    aShownRun('7_1', {
      parameters: { lr: 0.01, n: 1 },
      best: 0.2,
      state: 'done',
      seconds: 90
    })
  ],
  curves: [
    {
      name: 'loss',
      x: 'epoch',
      better: 'less',
      lines: ['7_0', '7_1'].map(run => ({
        run,
        points: [
          [1, 2],
          [2, 1]
        ]
      }))
    }
  ]
});

let server: FakeServer;
let client: HpcClient;
let feed: PolledFeed<IJobView>;
let opened: IFile[];
let jobs: string[];

function show(id: string): HTMLElement {
  feed = new PolledFeed('view', () => client.job(id), 20_000);
  const browser = {
    list: () => Promise.resolve([]),
    open: (file: IFile) => opened.push(file)
  };
  const open = (other: string): unknown => jobs.push(other);
  return render(<JobView {...{ client, id, feed, browser, open, trans }} />)
    .container;
}

function answer(overview: IJobOverview, view = aJobView('7')): void {
  server.answers = {
    'jobs/7': { body: view },
    jobs: { body: someJobs([]) },
    'jobs/7/overview': { body: overview }
  };
}

beforeEach(() => {
  server = new FakeServer();
  client = new HpcClient(server.settings);
  opened = [];
  jobs = [];
});

afterEach(() => {
  cleanup();
  feed.dispose();
  client.dispose();
  vi.restoreAllMocks();
});

describe('the overview of a job', () => {
  it('comes first, with progress, curve and last lines', async () => {
    answer(
      anOverview({
        progress: { unit: 'epoch', done: 37, of: 90, ends: 1e12 },
        curves: [{ ...SWEEP.curves[0], lines: [SWEEP.curves[0].lines[0]] }],
        log: 'epoch 36\n 10%\r100%\n\n'
      })
    );
    const shown = show('7');
    await screen.findByText('37 of 90 epochs done');
    expect(screen.getAllByRole('tab')[0].textContent).toBe('Overview');
    const bar = screen.getByRole('progressbar');
    expect([bar.getAttribute('value'), bar.getAttribute('max')]).toEqual([
      '37',
      '90'
    ]);
    expect(shown.textContent).toContain('about');
    screen.getByRole('slider', { name: 'loss: values' });
    const lines = screen.getByRole('region', { name: 'Last lines of the log' });
    expect(lines.querySelector('pre')?.textContent).toBe('epoch 36\n100%');
    expect(screen.getByRole('status').textContent).toBe('● running');
    expect(screen.queryByRole('radio')).toBeNull();
  });

  it('says what could be there while there is nothing', async () => {
    answer(anOverview({}));
    show('7');
    await screen.findByText(/There is nothing to look at yet/);
  });

  it('says why there is none, and leaves the other tabs', async () => {
    answer(anOverview({}));
    server.answers['jobs/7/overview'] = {
      status: 403,
      body: { message: 'Logs are switched off.', hint: '' }
    };
    show('7');
    await screen.findByText('Logs are switched off.');
    expect(screen.getAllByRole('tab').map(tab => tab.textContent)).toContain(
      'Details'
    );
  });

  it('is there also when Slurm has forgotten the job', async () => {
    answer(anOverview({ runs: [aShownRun('7', { state: 'done' })] }));
    server.answers['jobs/7'] = {
      status: 404,
      body: { message: 'There is no job 7 of yours.', hint: '' }
    };
    show('7');
    await screen.findByText('There is no job 7 of yours.');
    await waitFor(() =>
      expect(screen.getAllByRole('status')[0].textContent).toBe('✓ done')
    );
    expect(screen.getAllByRole('tab')).toHaveLength(1);
  });

  it('says that a job ends whose run is over', async () => {
    answer(
      anOverview({ ended: true, runs: [aShownRun('7', { state: 'failed' })] })
    );
    show('7');
    await waitFor(() =>
      expect(screen.getByRole('status').textContent).toBe(
        'ending: its run is failed'
      )
    );
    const asked = (): number =>
      server.requests.filter(request => request === 'GET jobs/7').length;
    await waitFor(() => expect(asked()).toBe(2));
  });
});

describe('the overview of a sweep', () => {
  beforeEach(() => answer(SWEEP));

  it('counts its runs, and ranks them', async () => {
    show('7');
    const table = await screen.findByRole('table', { name: /the best loss/ });
    const rows = within(table)
      .getAllByRole('row')
      .map(row => [...row.children].map(cell => cell.textContent));
    expect(rows).toEqual([
      ['Run', 'lr', 'State', 'loss', 'Time', 'Job'],
      ['Run 1', '0.01', '✓ done', '0.2', '1 min', '7_1'],
      ['Run 0', '0.1', '● running', '0.5', '', '7_0']
    ]);
    expect(screen.getByRole('status').textContent).toBe(
      '1 ● running 1 ✓ done '
    );
    screen.getByText('1 of 2 runs are over');
    fireEvent.click(screen.getByRole('button', { name: '7_1' }));
    expect(jobs).toEqual(['7_1']);
  });

  it('draws all runs over each other, called by what differs', async () => {
    const shown = show('7');
    await screen.findByRole('slider');
    const items = [...shown.querySelectorAll('.jp-Hpc-curve-legend strong')];
    expect(items.map(item => item.textContent)).toEqual(['lr 0.1', 'lr 0.01']);
  });

  it('shows one run when it is chosen', async () => {
    const asked = vi.spyOn(client, 'jobOverview');
    show('7');
    fireEvent.click(await screen.findByRole('radio', { name: '1' }));
    await waitFor(() => expect(asked).toHaveBeenLastCalledWith('7', '1'));
    await screen.findByRole('radio', { name: '1' });
    expect(screen.queryByRole('table')).toBeNull();
    fireEvent.click(screen.getByRole('radio', { name: 'all' }));
    await screen.findByRole('table', { name: /the best loss/ });
  });

  it('folds many runs into a list', async () => {
    const runs = Array.from({ length: 30 }, (_, index) =>
      aShownRun(`7_${index}`)
    );
    answer({ ...SWEEP, runs });
    show('7');
    const list = await screen.findByRole('combobox', { name: 'Run' });
    expect(list.querySelectorAll('option')).toHaveLength(31);
  });
});

describe('figures', () => {
  const figure = {
    run: '7',
    name: 'figures/cell03_1.png',
    kind: 'figure',
    type: 'image/png',
    size: 9,
    modified: 1.5,
    path: 'runs/7/output/figures/cell03_1.png'
  } as const;

  it('are thumbnails that open as files', async () => {
    answer(anOverview({ figures: [figure], more_figures: 3 }));
    show('7');
    const image = await screen.findByRole('img', { name: 'cell03_1.png' });
    expect(image.getAttribute('src')).toBe(
      'http://server/jupyter-hpc/jobs/7/figures/figures/cell03_1.png?of=1.5'
    );
    expect(image.getAttribute('loading')).toBe('lazy');
    fireEvent.click(screen.getByRole('button', { name: 'Open cell03_1.png' }));
    expect(opened.map(file => file.path)).toEqual([figure.path]);
    screen.getByText('3 more are under Files.');
  });

  it('of displayed values are frames that can do nothing', async () => {
    const display = {
      ...figure,
      name: 'displays/a b.html',
      kind: 'display',
      type: 'text/html',
      path: null
    } as const;
    const other = { ...display, name: 'displays/c.json', type: null };
    answer(anOverview({ figures: [display, other] }));
    const shown = show('7');
    const frame = await screen.findByTitle('a b.html');
    expect(frame.getAttribute('sandbox')).toBe('');
    expect(frame.getAttribute('src')).toContain('figures/displays/a%20b.html');
    expect(screen.queryByRole('button', { name: /Open/ })).toBeNull();
    expect(shown.querySelector('.jp-Hpc-figure-kind')?.textContent).toBe(
      'json'
    );
  });
});

it('the load of all GPUs is the mean of those that have one', () => {
  const column = (load: (number | null)[]): object => ({ load });
  const history = { times: [1, 2, 3], gpus: [] as object[] };
  history.gpus = [column([10, null, null]), column([30, 50, null])];
  expect(meanLoad(history as never)).toEqual([20, 50, null]);
});

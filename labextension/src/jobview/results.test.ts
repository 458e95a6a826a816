import { describe, expect, it } from 'vitest';

import type { IBrowser } from './files';
import { listResults } from './results';

const FOLDERS: Record<string, string[]> = {
  run: ['output/', 'parameters/', 'a.py', 'a.sbatch', 'conversion.json'],
  chain: ['output/', 'a.py'],
  'chain/output': ['figures/', 'DONE'],
  'chain/output/figures': ['cell03_1.png'],
  'run/output': ['figures/', 'displays/', 'DONE', 'a.ipynb', 'runs.csv', '2/'],
  'run/output/figures': ['cell03_1.png'],
  'run/output/displays': ['cell04_1.html'],
  'run/output/2': ['figures/', 'state.json'],
  'run/output/2/figures': ['cell03_1.png']
};

const browser: IBrowser = {
  list: path =>
    path in FOLDERS
      ? Promise.resolve(
          FOLDERS[path].map(entry => ({
            name: entry.replace('/', ''),
            path: `${path}/${entry.replace('/', '')}`,
            isFolder: entry.endsWith('/')
          }))
        )
      : Promise.reject(new Error('404')),
  open: () => undefined
};

describe('the results of a run', () => {
  it('are sorted by what they are', async () => {
    const found = await listResults(browser, 'run', '');
    const paths = Object.fromEntries(
      Object.entries(found).map(
        ([kind, files]: [string, { relativePath: string }[]]) => [
          kind,
          files.map(file => file.relativePath)
        ]
      )
    );
    expect(paths).toEqual({
      figures: ['figures/cell03_1.png', '2/figures/cell03_1.png'],
      displays: ['displays/cell04_1.html'],
      notebooks: ['a.ipynb'],
      others: ['runs.csv'],
      frozen: ['a.py', 'a.sbatch', 'conversion.json']
    });
  });

  it('are those of one task where the job is one', async () => {
    const { figures, others } = await listResults(browser, 'run', '2');
    expect(figures.map(file => file.path)).toEqual([
      'run/output/2/figures/cell03_1.png'
    ]);
    expect(others.map(file => file.path)).toEqual(['run/output/runs.csv']);
  });

  it('are shared by the parts of a chain', async () => {
    const { figures } = await listResults(browser, 'chain', '2');
    expect(figures.map(file => file.relativePath)).toEqual([
      'figures/cell03_1.png'
    ]);
  });

  it('are not what the run was given', async () => {
    const inputs = ['2/figures/cell03_1.png', 'displays'];
    const all = await listResults(browser, 'run', '', inputs);
    expect(all.figures.map(file => file.path)).toEqual([
      'run/output/figures/cell03_1.png'
    ]);
    expect(all.displays).toEqual([]);
    const one = await listResults(browser, 'run', '2', inputs);
    expect(one.figures).toEqual([]);
  });

  it('may not be there yet', async () => {
    const { figures } = await listResults(browser, 'run', '9');
    expect(figures).toEqual([]);
  });
});

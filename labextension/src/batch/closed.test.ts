import type { Contents } from '@jupyterlab/services';
import { describe, expect, it } from 'vitest';

import { ClosedNotebook } from './closed';

/** A file that a test can change, and what was saved to it. */
class FakeFiles {
  modified = '1';
  writable = true;
  metadata: Record<string, unknown> = {
    kernelspec: { name: 'python3' },
    'jupyter-hpc': { batch: { chain: '2' }, panel: 'open' }
  };
  saved: Contents.IModel[] = [];

  get(): Promise<Contents.IModel> {
    const metadata = structuredClone(this.metadata);
    return Promise.resolve({
      content: { cells: [], metadata },
      last_modified: this.modified,
      writable: this.writable
    } as unknown as Contents.IModel);
  }

  save(_: string, file?: Partial<Contents.IModel>): Promise<Contents.IModel> {
    this.saved.push(file as Contents.IModel);
    return Promise.resolve(file as Contents.IModel);
  }
}

describe('a notebook that is not open', () => {
  it('remembers what was chosen in its file, and nothing else changes', async () => {
    const files = new FakeFiles();
    const notebook = await ClosedNotebook.read(files, 'a.ipynb');
    expect(notebook.choices).toEqual({ chain: '2' });
    await notebook.keep({ chain: '3' });
    expect(files.saved[0].content).toEqual({
      cells: [],
      metadata: {
        kernelspec: { name: 'python3' },
        'jupyter-hpc': { batch: { chain: '3' }, panel: 'open' }
      }
    });
  });

  it.each([
    ['the same choices', {}, { chain: '2' }],
    ['a file that was written meanwhile', { modified: '2' }, { chain: '3' }],
    ['a read-only file', { writable: false }, { chain: '3' }]
  ])('is not written for %s', async (_, changes, choices) => {
    const files = new FakeFiles();
    const notebook = await ClosedNotebook.read(files, 'a.ipynb');
    Object.assign(files, changes);
    await notebook.keep(choices);
    expect(files.saved).toEqual([]);
  });

  it('has no choices where it cannot be read', async () => {
    const files = new FakeFiles();
    files.get = () => Promise.reject(new Error('no JSON'));
    const notebook = await ClosedNotebook.read(files, 'a.ipynb');
    expect(notebook.choices).toBeUndefined();
    await notebook.keep({ chain: '3' });
    expect(files.saved).toEqual([]);
  });
});

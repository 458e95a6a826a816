import { nullTranslator } from '@jupyterlab/translation';
import { describe, expect, it, vi } from 'vitest';

import type { IMemoryKill } from '../data/api';
import { KillWatch, lossLine, lossText, moreMemory } from './kills';

const trans = nullTranslator.load('jupyter_hpc');

function aKill(at: number, ...names: string[]): IMemoryKill {
  return {
    number: 1,
    at,
    limit: 700 * 1024 ** 2,
    kernels: names.map(name => ({
      path: name,
      name,
      kernel_id: name,
      session_id: null
    }))
  };
}

describe('what was ended for want of memory', () => {
  it('is told once, and nothing of before', () => {
    const told: IMemoryKill[] = [];
    const watch = new KillWatch(kill => told.push(kill));
    watch.look([aKill(10, 'old.ipynb')]);
    const news = aKill(20, 'a.ipynb');
    watch.look([aKill(10, 'old.ipynb'), news]);
    watch.look([aKill(10, 'old.ipynb'), news]);
    expect(told).toEqual([news]);
  });

  it('is told at the first look where the server has called', () => {
    const tell = vi.fn();
    const watch = new KillWatch(tell);
    watch.begin();
    watch.look([aKill(10, 'a.ipynb')]);
    expect(tell).toHaveBeenCalledOnce();
  });

  it('names the kernel, the limit and what helps', () => {
    const kill = aKill(1, 'a.ipynb');
    expect(lossLine(kill, trans)).toBe(
      'The kernel of a.ipynb was ended: out of memory (700 MiB). For more: --mem 1400M'
    );
    expect(lossText(kill, trans)).toBe(
      'The kernel of a.ipynb was ended, and its variables are gone: the memory of this job (700 MiB) was full.'
    );
    expect(moreMemory(kill, 'mini', trans)).toContain(
      'jupyter-hpc connect mini --mem 1400M'
    );
    expect(moreMemory(kill, '', trans)).toContain('--mem 1400M');
    expect(lossText(aKill(1), trans)).toContain('A process of this session');
    const ofNode = { ...kill, limit: null };
    expect(lossText(ofNode, trans)).toContain('the node had no memory left');
    expect(moreMemory(ofNode, 'mini', trans)).not.toContain('--mem');
  });
});

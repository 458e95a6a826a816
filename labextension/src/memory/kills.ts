import type { TranslationBundle } from '@jupyterlab/translation';

import type { IMemoryKill } from '../data/api';
import { formatBytes } from '../ui/format';

/** Tells of each once; what had happened before the first look is old news. */
export class KillWatch {
  constructor(private readonly _tell: (kill: IMemoryKill) => void) {}

  /** From now on all is news, whether a look came before or not. */
  begin(): void {
    this._last ??= 0;
  }

  look(kills: readonly IMemoryKill[]): void {
    const last = this._last;
    this._last = Math.max(last ?? 0, ...kills.map(kill => kill.at));
    if (last !== null) {
      kills.filter(kill => kill.at > last).forEach(this._tell);
    }
  }

  /** By the server's clock; a server that is started again counts anew. */
  private _last: number | null = null;
}

/** It in a line: JupyterLab cuts notifications after 140 characters. */
export function lossLine(kill: IMemoryKill, trans: TranslationBundle): string {
  const what =
    kill.kernels.length === 0
      ? trans.__('A process of this session was ended')
      : trans._n(
          'The kernel of %2 was ended',
          '%1 kernels were ended',
          kill.kernels.length,
          kill.kernels[0].name
        );
  return kill.limit === null
    ? trans.__('%1: the node had no memory left.', what)
    : trans.__(
        '%1: out of memory (%2). For more: --mem %3',
        what,
        formatBytes(kill.limit),
        twice(kill.limit)
      );
}

/** Double of it, as an option of Slurm. */
function twice(bytes: number): string {
  const megabytes = Math.floor((2 * bytes) / 1024 ** 2);
  return megabytes % 1024 === 0 ? `${megabytes / 1024}G` : `${megabytes}M`;
}

/** What was ended, and why. */
export function lossText(kill: IMemoryKill, trans: TranslationBundle): string {
  const why =
    kill.limit === null
      ? trans.__('the node had no memory left.')
      : trans.__(
          'the memory of this job (%1) was full.',
          formatBytes(kill.limit)
        );
  if (kill.kernels.length === 0) {
    return trans.__('A process of this session was ended: %1', why);
  }
  return trans._n(
    'The kernel of %2 was ended, and its variables are gone: %3',
    'The kernels of %2 were ended, and their variables are gone: %3',
    kill.kernels.length,
    kill.kernels.map(kernel => kernel.name).join(', '),
    why
  );
}

/** What helps; `name` is the session's on the user's computer, or "". */
export function moreMemory(
  kill: IMemoryKill,
  name: string,
  trans: TranslationBundle
): string {
  if (kill.limit === null) {
    return trans.__('Load less at once, or go to another node.');
  }
  return name
    ? trans.__(
        'For more memory, in a terminal: jupyter-hpc connect %1 --mem %2',
        name,
        twice(kill.limit)
      )
    : trans.__(
        'Ask for more memory when you start it next: --mem %1',
        twice(kill.limit)
      );
}

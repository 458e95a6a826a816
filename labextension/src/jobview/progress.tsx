import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IRunProgress } from '../data/api';
import { formatNumber, formatSpan, formatTime } from '../ui/format';

interface IProgressProps {
  progress: IRunProgress;
  /** The server's clock in seconds. */
  now: number;
  trans: TranslationBundle;
}

/** How much is done, as a bar and in words, and when it comes to its end at this pace. */
export function Progress(props: IProgressProps): JSX.Element {
  const { progress, now, trans } = props;
  const { done, of, ends } = progress;
  const words = inWords(progress, trans);
  return (
    <div className="jp-Hpc-progress">
      <span>{words}</span>
      {of !== null && of > 0 && (
        <progress
          aria-label={trans.__('Progress')}
          value={Math.min(done, of)}
          max={of}
        />
      )}
      {ends !== null && (
        <span
          className="jp-Hpc-quiet"
          title={trans.__('At the pace of this run so far')}
        >
          {ends > now
            ? trans.__(
                'about %1 left, until %2',
                formatSpan(ends - now, trans),
                formatTime(ends)
              )
            : trans.__('about to end')}
        </span>
      )}
    </div>
  );
}

function inWords(
  { unit, done, of }: IRunProgress,
  trans: TranslationBundle
): string {
  if (unit === 'percent') {
    return trans.__('%1 %', Math.round(done));
  }
  if (unit === 'run') {
    return trans.__('%1 of %2 runs are over', done, of ?? 0);
  }
  const whole = formatNumber(Math.floor(done * 100) / 100);
  return of === null
    ? trans.__('%1 epochs done', whole)
    : trans.__('%1 of %2 epochs done', whole, of);
}

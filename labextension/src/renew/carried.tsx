import { MainAreaWidget } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';
import type { Widget } from '@lumino/widgets';
import * as React from 'react';

import type { ICarriedKernel } from '../data/api';
import { NoticeArea } from '../tab/area';

interface ICarriedProps {
  kernel: ICarriedKernel;
  trans: TranslationBundle;
  onDismiss: () => void;
}

/** What the new kernel of a notebook knows of the one before, and what it does not. */
export function Carried(props: ICarriedProps): JSX.Element {
  const { kernel, trans, onDismiss } = props;
  const { names, left, problem } = kernel;
  return (
    <section
      className="jp-Hpc-notice"
      role="status"
      aria-label={trans.__('Variables')}
    >
      <h2>
        {problem
          ? trans.__('The kernel is new: no variables were carried over')
          : trans._n(
              'The kernel is new: %1 variable was carried over',
              'The kernel is new: %1 variables were carried over',
              names.length
            )}
      </h2>
      {problem && <p>{problem}</p>}
      {left.length > 0 && (
        <>
          <p>{trans.__('Not carried over:')}</p>
          <ul className="jp-Hpc-left">
            {left.map(({ name, reason }) => (
              <li key={name}>
                <code>{name}</code>: {reason}
              </li>
            ))}
          </ul>
        </>
      )}
      <button className="jp-mod-styled" onClick={onDismiss}>
        {trans.__('Dismiss')}
      </button>
    </section>
  );
}

/** Show it at the top of the notebook's own tab; in place of an earlier one. */
export function showCarried(
  widget: Widget,
  kernel: ICarriedKernel,
  trans: TranslationBundle
): void {
  if (!(widget instanceof MainAreaWidget)) {
    return;
  }
  for (const earlier of [...widget.contentHeader.widgets]) {
    if (earlier instanceof NoticeArea) {
      earlier.dispose();
    }
  }
  const notice: NoticeArea = new NoticeArea(
    <Carried kernel={kernel} trans={trans} onDismiss={() => notice.dispose()} />
  );
  widget.contentHeader.addWidget(notice);
}

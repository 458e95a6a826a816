import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IProposal } from '../data/api';
import { Diff } from './diff';
import { CellLink } from './links';
import type { BatchModel } from './model';

interface IProposalProps {
  model: BatchModel;
  proposal: IProposal | null;
  showCell: (cell: number) => void;
  trans: TranslationBundle;
}

/** What a training lacks to go on where it ended: a change to accept, or lines to write. */
export function Proposed(props: IProposalProps): JSX.Element | null {
  const { model, proposal, trans } = props;
  if (!proposal) {
    return model.applied.length ? (
      <p className="jp-Hpc-proposal" role="status">
        <Cells {...props} cells={model.applied} />{' '}
        {trans.__(
          'The lines are in the notebook; Undo there takes them back out.'
        )}
      </p>
    ) : null;
  }
  const { edits, message, notes, recipe, unsure } = proposal;
  return (
    <section
      className="jp-Hpc-proposal"
      aria-label={trans.__('To go on where it ended')}
    >
      {message}
      {unsure && <> {unsure}</>}
      <details>
        <summary>
          {edits.length
            ? trans.__('Show the lines that let it go on')
            : trans.__('Show the lines to write')}
        </summary>
        {edits.map(({ cell, diff }) => (
          <Diff key={cell} text={diff} label={trans.__('Cell %1', cell)} />
        ))}
        {!edits.length && (
          <Diff text={recipe} label={trans.__('Lines to write')} />
        )}
        <ul>
          {notes.map(note => (
            <li key={note}>{note}</li>
          ))}
        </ul>
      </details>
      {edits.length > 0 && model.canApply && (
        <>
          <button
            className="jp-Button jp-mod-styled jp-mod-minimal"
            disabled={model.busy !== null}
            onClick={() => void model.apply(edits)}
          >
            {trans.__('Apply to the notebook')}
          </button>{' '}
          <Cells {...props} cells={edits.map(({ cell }) => cell)} />
        </>
      )}
    </section>
  );
}

function Cells(
  props: IProposalProps & { cells: readonly number[] }
): JSX.Element {
  const { cells, showCell, trans } = props;
  return (
    <>
      {cells.map(cell => (
        <CellLink key={cell} {...{ cell, showCell, trans }} />
      ))}
    </>
  );
}

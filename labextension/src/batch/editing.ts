import type { NotebookPanel } from '@jupyterlab/notebook';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { IProposal } from '../data/api';

type Edits = IProposal['edits'];

/** As much of a notebook on the screen as is needed here. */
export interface IEditable {
  context: {
    contentsModel: { writable?: boolean } | null;
    model: Pick<NotebookPanel['context']['model'], 'dirty' | 'readOnly'> & {
      cells: {
        get(index: number): {
          type: string;
          sharedModel: { source: string; setSource(value: string): void };
        };
        readonly length: number;
      };
    };
    save(): Promise<void>;
  };
}

/**
 * Write proposed texts into the cells of an open notebook, and save it.
 *
 * Each goes through the cell's own model, so that Undo takes it back and everybody who
 * works on the notebook sees it. Throws, and changes nothing, where a cell is another.
 */
export async function editCells(
  panel: IEditable,
  edits: Edits,
  trans: TranslationBundle
): Promise<void> {
  const { context } = panel;
  const { cells, readOnly } = context.model;
  if (readOnly || context.contentsModel?.writable === false) {
    throw new Error(trans.__('The notebook is read-only.'));
  }
  const found = edits.map(({ cell, before, after }) => {
    const target = cell <= cells.length ? cells.get(cell - 1) : undefined;
    const source = target?.sharedModel.source.replace(/\r\n?/g, '\n');
    if (target?.type !== 'code' || ![before, after].includes(source ?? '')) {
      throw new Error(
        trans.__(
          'Cell %1 is no longer as it was; nothing was changed. Check again.',
          cell
        )
      );
    }
    return { target, after };
  });
  for (const { target, after } of found) {
    if (target.sharedModel.source !== after) {
      target.sharedModel.setSource(after);
    }
  }
  await context.save();
  if (context.model.dirty) {
    throw new Error(
      trans.__('The notebook was changed, but it could not be saved.')
    );
  }
}

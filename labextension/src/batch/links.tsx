import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

interface ICellLinkProps {
  cell: number;
  showCell: (cell: number) => void;
  trans: TranslationBundle;
}

/** The way from a sentence to its cell. */
export function CellLink({
  cell,
  showCell,
  trans
}: ICellLinkProps): JSX.Element {
  return cell > 0 ? (
    <button className="jp-Hpc-link" onClick={() => showCell(cell)}>
      {trans.__('Cell %1', cell)}
    </button>
  ) : (
    <span>{trans.__('Notebook')}</span>
  );
}

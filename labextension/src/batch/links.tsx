import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

/** What stands in the brackets beside a cell, by its number: people know a cell by that. */
export const Executions = React.createContext<Record<string, number>>({});

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
  const count = React.useContext(Executions)[String(cell)];
  return cell > 0 ? (
    <button className="jp-Hpc-link" onClick={() => showCell(cell)}>
      {count === undefined
        ? trans.__('Cell %1', cell)
        : trans.__('Cell %1, In [%2]', cell, count)}
    </button>
  ) : (
    <span>{trans.__('Notebook')}</span>
  );
}

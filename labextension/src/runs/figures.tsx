import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IFile } from '../jobview/files';
import { labelOf, type IRow } from './rows';

/** So many names of figures are shown, each of all runs. */
const MAX_FIGURES = 24;
const PICTURE = /\.(png|jpe?g|gif|svg|webp)$/i;

/** The figures of runs through the server's own contents. */
export interface IFigures {
  list(path: string): Promise<IFile[]>;
  address(path: string): Promise<string>;
}

type Pictures = Map<string, Map<string, string>>;

interface IComparedFiguresProps {
  rows: readonly IRow[];
  figures: IFigures;
  trans: TranslationBundle;
}

/** The figures of runs side by side: those of one name in one line. */
export function ComparedFigures(props: IComparedFiguresProps): JSX.Element {
  const { rows, figures, trans } = props;
  const [found, setFound] = React.useState<Pictures | null>(null);
  React.useEffect(() => {
    let isCurrent = true;
    void picturesOf(rows, figures).then(pictures => {
      if (isCurrent) {
        setFound(pictures);
      }
    });
    return () => {
      isCurrent = false;
    };
  }, [rows, figures]);

  if (found === null) {
    return <p className="jp-Hpc-quiet">{trans.__('Looking for figures…')}</p>;
  }
  const hidden = rows.filter(row => row.submit.run_path === null);
  const names = [...found.keys()].sort();
  return (
    <>
      {hidden.length > 0 && (
        <p className="jp-Hpc-quiet">
          {trans.__(
            'The file browser does not show the folders of %1, so their figures are missing here.',
            hidden.map(row => row.key).join(', ')
          )}
        </p>
      )}
      {names.length === 0 && (
        <p className="jp-Hpc-quiet">
          {trans.__('These runs left no figures.')}
        </p>
      )}
      {names.slice(0, MAX_FIGURES).map(name => (
        <div key={name} className="jp-Hpc-runs-figures">
          {rows.map(row => {
            const address = found.get(name)?.get(row.key);
            const label = labelOf(row.submit, row.runs[0]);
            return (
              <figure key={row.key}>
                {address ? (
                  <img
                    src={address}
                    alt={trans.__('%1 of run %2', name, label)}
                    loading="lazy"
                    decoding="async"
                  />
                ) : (
                  <p className="jp-Hpc-quiet">{trans.__('none')}</p>
                )}
                <figcaption>
                  {name} <small>{label}</small>
                </figcaption>
              </figure>
            );
          })}
        </div>
      ))}
      {names.length > MAX_FIGURES && (
        <p>{trans.__('and %1 more', names.length - MAX_FIGURES)}</p>
      )}
    </>
  );
}

/** By the name of the figure: the address of each run's. */
async function picturesOf(
  rows: readonly IRow[],
  figures: IFigures
): Promise<Pictures> {
  const found: Pictures = new Map();
  for (const { key, submit, runs } of rows) {
    if (submit.run_path === null) {
      continue;
    }
    const parts = [submit.run_path, 'output', runs[0].task, 'figures'];
    const folder = parts.filter(Boolean).join('/');
    // A run without figures has no such folder.
    const files = await figures.list(folder).catch(() => []);
    for (const { name, path } of files.filter(file =>
      PICTURE.test(file.name)
    )) {
      const own = found.get(name) ?? new Map<string, string>();
      own.set(key, await figures.address(path));
      found.set(name, own);
    }
  }
  return found;
}

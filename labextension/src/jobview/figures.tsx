import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IFigure, IJobOverview } from '../data/api';
import type { IHpcClient } from '../tokens';
import type { IBrowser } from './files';

interface IFiguresProps {
  client: IHpcClient;
  id: string;
  overview: IJobOverview;
  browser: IBrowser;
  trans: TranslationBundle;
}

/** What a run has drawn and shown: thumbnails that open as files. */
export function Figures(props: IFiguresProps): JSX.Element | null {
  const { overview, trans } = props;
  const { figures, more_figures } = overview;
  const drawn = figures.filter(figure => figure.kind === 'figure');
  const shown = figures.filter(figure => figure.kind === 'display');
  if (figures.length === 0) {
    return null;
  }
  return (
    <>
      <Shelf title={trans.__('Figures')} figures={drawn} {...props} />
      <Shelf title={trans.__('Displayed values')} figures={shown} {...props} />
      {more_figures > 0 && (
        <p className="jp-Hpc-quiet">
          {trans.__('%1 more are under Files.', more_figures)}
        </p>
      )}
    </>
  );
}

function Shelf(
  props: IFiguresProps & { title: string; figures: IFigure[] }
): JSX.Element | null {
  const { title, figures, client, id, browser, overview, trans } = props;
  if (figures.length === 0) {
    return null;
  }
  return (
    <section aria-label={title}>
      <h4>{title}</h4>
      <ul className="jp-Hpc-figures">
        {figures.map(figure => {
          const label = nameOf(figure, overview.is_sweep, trans);
          const { path } = figure;
          return (
            <li key={figure.name}>
              <div className="jp-Hpc-figure">
                <Thumbnail
                  address={client.figureAddress(id, figure)}
                  {...{ figure, label }}
                />
                {path !== null && (
                  // Above it, not around it: a frame inside of a button is none.
                  <button
                    aria-label={trans.__('Open %1', label)}
                    onClick={() =>
                      browser.open({ name: label, path, isFolder: false })
                    }
                  />
                )}
              </div>
              <span className="jp-Hpc-quiet">{label}</span>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** A picture, or a page in a frame that can do nothing; else only the kind of the file. */
function Thumbnail(props: {
  figure: IFigure;
  address: string;
  label: string;
}): JSX.Element {
  const { figure, address, label } = props;
  if (figure.type === 'text/html') {
    return (
      <iframe
        src={address}
        title={label}
        sandbox=""
        loading="lazy"
        tabIndex={-1}
      />
    );
  }
  if (figure.type === null) {
    return (
      <span className="jp-Hpc-figure-kind">
        {figure.name.split('.').at(-1)}
      </span>
    );
  }
  return <img src={address} alt={label} loading="lazy" decoding="async" />;
}

/** "cell03_1.png", in a sweep with the run that drew it. */
function nameOf(
  { name, run }: IFigure,
  isSweep: boolean,
  trans: TranslationBundle
): string {
  const file = name.split('/').at(-1) ?? name;
  return isSweep ? trans.__('run %1: %2', run.split('_')[1], file) : file;
}

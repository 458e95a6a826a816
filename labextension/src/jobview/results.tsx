import type { TranslationBundle } from '@jupyterlab/translation';
import { fileIcon, imageIcon, notebookIcon } from '@jupyterlab/ui-components';
import * as React from 'react';

import type { IJobView } from '../data/api';
import type { IBrowser, IFile } from './files';

/** Folders of a run are not deep: output/TASK/figures. */
const MAX_LEVELS = 3;
const MAX_FOLDERS = 60;

/** Files of the body's own book-keeping, which say nothing to a person. */
const MARKERS = ['DONE', 'state.json'];

/** The table of all runs of a sweep, beside the folders of its tasks. */
const TABLE = 'runs.csv';

/** The folder of a sweep's run that holds the values of each task. */
const SWEPT = 'parameters';

/** A result with its path below the output folder, such as "2/figures/cell03_1.png". */
export interface IResult extends IFile {
  relativePath: string;
}

/** The results of a run by what they are, the way a person looks for them. */
export interface IResults {
  figures: IResult[];
  displays: IResult[];
  notebooks: IResult[];
  others: IResult[];
  /** What was frozen at submit: notebook, script, job, and the report of the conversion. */
  frozen: IResult[];
}

/** Look into a run folder; `task` is the number of an array's task, `inputs` are no results.
 *
 * Only the runs of a sweep have folders of their own; the parts of a chain share one.
 */
export async function listResults(
  browser: IBrowser,
  folder: string,
  task: string,
  inputs: readonly string[] = []
): Promise<IResults> {
  const frozen = await browser.list(folder);
  const isSweep = frozen.some(file => file.isFolder && file.name === SWEPT);
  const output =
    task && isSweep ? `${folder}/output/${task}` : `${folder}/output`;
  const given = new Set(inputs.map(path => `${folder}/output/${path}`));
  const files = await walk(browser, output, given);
  if (task && isSweep) {
    const beside = await browser.list(`${folder}/output`).catch(() => []);
    const table = beside.filter(file => file.name === TABLE);
    files.push(...table.map(file => ({ ...file, relativePath: TABLE })));
  }
  const isIn = (file: IResult, name: string): boolean =>
    file.relativePath.split('/').slice(0, -1).includes(name);
  const isNotebook = (file: IResult): boolean => file.name.endsWith('.ipynb');
  const figures = files.filter(file => isIn(file, 'figures'));
  const displays = files.filter(file => isIn(file, 'displays'));
  const rest = files.filter(
    file => !figures.includes(file) && !displays.includes(file)
  );
  return {
    figures,
    displays,
    notebooks: rest.filter(isNotebook),
    others: rest.filter(file => !isNotebook(file)),
    frozen: frozen
      .filter(file => !file.isFolder)
      .map(file => ({ ...file, relativePath: file.name }))
  };
}

async function walk(
  browser: IBrowser,
  root: string,
  given: ReadonlySet<string>
): Promise<IResult[]> {
  const found: IResult[] = [];
  let folders = [''];
  let looked = 0;
  for (let level = 0; level < MAX_LEVELS && folders.length; level += 1) {
    const below: string[] = [];
    for (const folder of folders) {
      if (looked++ === MAX_FOLDERS) {
        return found;
      }
      const entries = await browser
        .list(folder ? `${root}/${folder}` : root)
        .catch(() => []);
      for (const entry of entries) {
        const relativePath = folder ? `${folder}/${entry.name}` : entry.name;
        if (given.has(`${root}/${relativePath}`)) {
          continue;
        }
        if (entry.isFolder) {
          below.push(relativePath);
        } else if (!MARKERS.includes(entry.name)) {
          found.push({ ...entry, relativePath });
        }
      }
    }
    folders = below;
  }
  return found;
}

interface IResultsProps {
  view: IJobView;
  folder: string;
  browser: IBrowser;
  trans: TranslationBundle;
}

/** What a run of ours has brought back so far, each file one click away. */
export function Results(props: IResultsProps): JSX.Element {
  const { view, folder, browser, trans } = props;
  const task = view.job.id.split('_')[1] ?? '';
  const [results, setResults] = React.useState<IResults | null>(null);
  React.useEffect(() => {
    let isWanted = true;
    const { inputs } = view.files;
    listResults(browser, folder, /^\d+$/.test(task) ? task : '', inputs)
      .then(found => isWanted && setResults(found))
      .catch(() => undefined);
    return () => {
      isWanted = false;
    };
    // Every new look at the job is a reason to look at its files again.
  }, [browser, folder, task, view]);
  if (!results) {
    return <p className="jp-Hpc-quiet">{trans.__('Asking the server…')}</p>;
  }
  const lists: [string, IResult[]][] = [
    [trans.__('Figures'), results.figures],
    [trans.__('Displayed values'), results.displays],
    [trans.__('Executed notebook'), results.notebooks],
    [trans.__('Other results'), results.others],
    [trans.__('As it was submitted'), results.frozen]
  ];
  const isEmpty = lists.slice(0, -1).every(([, files]) => !files.length);
  return (
    <>
      {isEmpty && (
        <p className="jp-Hpc-quiet">{trans.__('There are no results yet.')}</p>
      )}
      {lists.map(
        ([title, files]) =>
          files.length > 0 && (
            <section key={title} aria-label={title}>
              <h4>{title}</h4>
              <FileList files={files} browser={browser} />
            </section>
          )
      )}
    </>
  );
}

interface IFileListProps {
  files: IResult[];
  browser: IBrowser;
}

function FileList({ files, browser }: IFileListProps): JSX.Element {
  return (
    <ul className="jp-Hpc-files">
      {files.map(file => {
        const Icon = iconOf(file.name);
        return (
          <li key={file.path}>
            <button className="jp-Hpc-link" onClick={() => browser.open(file)}>
              <Icon.react tag="span" />
              {withoutKind(file.relativePath)}
            </button>
          </li>
        );
      })}
    </ul>
  );
}

/** The heading above says "figures" already. */
function withoutKind(relativePath: string): string {
  return relativePath.replace(/(^|\/)(figures|displays)\//, '$1');
}

function iconOf(name: string): typeof fileIcon {
  if (name.endsWith('.ipynb')) {
    return notebookIcon;
  }
  return /\.(png|svg|jpe?g|gif|pdf)$/.test(name) ? imageIcon : fileIcon;
}

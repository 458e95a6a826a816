import { fileIcon, folderIcon } from '@jupyterlab/ui-components';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobView } from '../data/api';
import { type Fact, Facts } from '../ui/facts';
import { Results } from './results';

/** A file or folder of the job's working directory. */
export interface IFile {
  name: string;
  path: string;
  isFolder: boolean;
}

/** What the view needs of the application around it. */
export interface IBrowser {
  list(path: string): Promise<IFile[]>;
  open(file: IFile): void;
}

interface IFilesProps {
  view: IJobView;
  browser: IBrowser;
  trans: TranslationBundle;
}

/** Where the job's files are, and its working directory where the file browser reaches it. */
export function FilesTab({ view, browser, trans }: IFilesProps): JSX.Element {
  const { stdout, stderr, work_dir, contents_path, run_dir, run_path } =
    view.files;
  const [files, setFiles] = React.useState<IFile[] | null>(null);
  React.useEffect(() => {
    if (contents_path !== null) {
      browser
        .list(contents_path)
        .then(setFiles)
        .catch(() => setFiles([]));
    }
  }, [browser, contents_path]);
  const rows: Fact[] = [
    [trans.__('Run folder'), run_dir],
    [trans.__('Working directory'), work_dir],
    [trans.__('Output'), stdout],
    [trans.__('Errors'), stderr]
  ];
  return (
    <>
      <Facts rows={rows} />
      {run_path !== null && (
        <Results folder={run_path} {...{ view, browser, trans }} />
      )}
      {run_path !== null && <h4>{trans.__('Working directory')}</h4>}
      {contents_path === null ? (
        <p className="jp-Hpc-quiet">
          {trans.__(
            'The working directory is outside of what the file browser shows.'
          )}
        </p>
      ) : (
        <ul className="jp-Hpc-files">
          {files?.length === 0 && <li>{trans.__('The folder is empty.')}</li>}
          {files?.map(file => (
            <li key={file.path}>
              <button
                className="jp-Hpc-link"
                onClick={() => browser.open(file)}
              >
                {file.isFolder ? (
                  <folderIcon.react tag="span" />
                ) : (
                  <fileIcon.react tag="span" />
                )}
                {file.name}
              </button>
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

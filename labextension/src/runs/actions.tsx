import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IRunAgain, IRunHolding } from '../data/api';
import { NAMESPACE } from '../data/request';
import { sentences, tell } from '../jobs/actions';
import type { IHpcClient } from '../tokens';
import { formatBytes } from '../ui/format';

/** So many runs are named with their folders in the question. */
const MAX_NAMED = 8;
/** More files than these are downloaded by nobody at once. */
const MAX_DOWNLOADS = 10;

/** Ask with what goes by name, delete that, and tell; true if something may be gone. */
export async function confirmAndDelete(
  client: IHpcClient,
  ids: readonly string[],
  trans: TranslationBundle
): Promise<boolean> {
  let runs: IRunHolding[];
  try {
    ({ runs } = await client.runContents(ids));
  } catch (error) {
    tell(sentences(error), trans);
    return false;
  }
  const doomed = runs.filter(run => !run.message);
  if (doomed.length === 0) {
    tell(runs.map(run => `${run.message} ${run.hint}`.trim()).join(' '), trans);
    return false;
  }
  const { button } = await showDialog({
    title: trans._n(
      'Delete this run for good?',
      'Delete %1 runs for good?',
      doomed.length
    ),
    body: <Question runs={runs} trans={trans} />,
    // Enter alone deletes nothing.
    defaultButton: 0,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Back') }),
      Dialog.warnButton({
        label: trans._n('Delete the Run', 'Delete %1 Runs', doomed.length)
      })
    ]
  });
  if (!button.accept) {
    return false;
  }
  try {
    const { message } = await client.deleteRuns(
      doomed.map(({ id, run_dir, mark }) => ({ id, run_dir, mark }))
    );
    Notification.success(message, { autoClose: 5000 });
  } catch (error) {
    tell(sentences(error), trans);
  }
  return true;
}

/** What goes: each run with its folder, files and size, and what stays. */
export function Question(props: {
  runs: readonly IRunHolding[];
  trans: TranslationBundle;
}): JSX.Element {
  const { runs, trans } = props;
  const doomed = runs.filter(run => !run.message);
  const kept = runs.filter(run => run.message);
  const files = doomed.reduce((sum, run) => sum + run.files, 0);
  const bytes = doomed.reduce((sum, run) => sum + run.bytes, 0);
  return (
    <div className="jp-Hpc-runs-question">
      <p>
        {trans.__(
          '%1 files, %2, with all results, logs and figures. They cannot be had back.',
          files,
          formatBytes(bytes)
        )}
      </p>
      <ul>
        {doomed.slice(0, MAX_NAMED).map(run => (
          <li key={run.id}>
            <strong>{run.id}</strong>{' '}
            {run.files
              ? trans.__('%1 files, %2', run.files, formatBytes(run.bytes))
              : trans.__('its folder is gone, only its entry is left')}
            <small>{run.run_dir}</small>
            {run.largest[0] && (
              <small>
                {trans.__(
                  'largest: %1 (%2)',
                  run.largest[0].path,
                  formatBytes(run.largest[0].bytes)
                )}
              </small>
            )}
          </li>
        ))}
      </ul>
      {doomed.length > MAX_NAMED && (
        <p>{trans.__('and %1 more', doomed.length - MAX_NAMED)}</p>
      )}
      {kept.length > 0 && (
        <>
          <p>{trans.__('These stay:')}</p>
          <ul>
            {kept.slice(0, MAX_NAMED).map(run => (
              <li key={run.id}>
                <strong>{run.id}</strong> {run.message}
              </li>
            ))}
          </ul>
        </>
      )}
    </div>
  );
}

/** Let the browser keep the results of each run as a zip file. */
export function download(
  baseUrl: string,
  ids: readonly string[],
  trans: TranslationBundle
): void {
  if (ids.length > MAX_DOWNLOADS) {
    tell(
      trans.__(
        '%1 files at once are too many for a browser. Choose at most %2 runs; of a whole sweep choose the sweep.',
        ids.length,
        MAX_DOWNLOADS
      ),
      trans
    );
    return;
  }
  for (const id of ids) {
    const link = document.createElement('a');
    link.href = URLExt.join(baseUrl, NAMESPACE, 'runs', id, 'results.zip');
    link.download = '';
    document.body.append(link);
    link.click();
    link.remove();
  }
}

/** Open the dialog with what was chosen for a run. */
export async function runAgain(
  client: IHpcClient,
  id: string,
  submit: (path: string, choices: IRunAgain['choices']) => void,
  trans: TranslationBundle
): Promise<void> {
  let again: IRunAgain;
  try {
    again = await client.runAgain(id);
  } catch (error) {
    tell(sentences(error), trans);
    return;
  }
  const path = again.path ?? again.frozen;
  if (path === null) {
    tell(
      trans.__(
        'The file browser shows neither the notebook of this run nor its copy in the run folder. Submit it in a terminal with jupyter-hpc submit.'
      ),
      trans
    );
    return;
  }
  const said = [
    again.path === null &&
      trans.__(
        'The notebook is not there any more: this is the copy that was frozen with the run.'
      ),
    again.path !== null &&
      again.changed &&
      trans.__('The notebook was changed after this run was submitted.'),
    !again.recorded &&
      trans.__(
        'This run was not submitted from here: look through the fields, not all of its choices are known.'
      )
  ].filter(Boolean);
  if (said.length > 0) {
    Notification.info(said.join(' '), { autoClose: 15_000 });
  }
  submit(path, again.choices);
}

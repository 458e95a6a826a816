import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  Dialog,
  ICommandPalette,
  InputDialog,
  MainAreaWidget,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import { URLExt } from '@jupyterlab/coreutils';
import { INotebookTracker } from '@jupyterlab/notebook';
import {
  ITranslator,
  nullTranslator,
  type TranslationBundle
} from '@jupyterlab/translation';
import { IFrame } from '@jupyterlab/ui-components';

import { COMMANDS } from '../commands';
import { NAMESPACE } from '../data/request';
import { tensorBoardIcon } from '../icons';
import { IHpcClient } from '../tokens';

/** What TensorBoard's own page needs; it is of our origin, where the login counts. */
const ALLOWED: IFrame.SandboxExceptions[] = [
  'allow-scripts',
  'allow-same-origin',
  'allow-forms',
  'allow-popups',
  'allow-downloads'
];

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:tensorboard',
  description: 'Starts TensorBoard in the job and shows it.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [ICommandPalette, INotebookTracker, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    palette: ICommandPalette | null,
    notebooks: INotebookTracker | null,
    translator: ITranslator | null
  ): void => {
    const { commands, serviceManager } = app;
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');

    /** The folder of logs that the person wants; null to leave it. */
    const choose = async (cwd: string): Promise<string | null> => {
      const path = notebooks?.currentWidget?.context.path;
      const beside = path
        ? serviceManager.contents.localPath(path)
        : `${cwd}/notebook`;
      const { installed, install, folders } = await client.tensorBoards(beside);
      if (!installed) {
        await sayMissing(install, trans);
        return null;
      }
      const title = trans.__('TensorBoard: which folder of logs?');
      const answer = folders.length
        ? await InputDialog.getItem({
            title,
            items: folders,
            editable: true,
            okLabel: trans.__('Open')
          })
        : await InputDialog.getText({
            title,
            label: trans.__(
              'No logs were found beside the notebook. A relative path begins where the file browser does.'
            ),
            okLabel: trans.__('Open')
          });
      return answer.button.accept ? answer.value : null;
    };

    const open = async (logdir: string): Promise<void> => {
      const starting = Notification.emit(
        trans.__('TensorBoard of %1 is being started.', logdir),
        'in-progress',
        { autoClose: false }
      );
      try {
        const board = await client.startTensorBoard(logdir);
        const url = URLExt.join(
          serviceManager.serverSettings.baseUrl,
          NAMESPACE,
          'tensorboard',
          board.id,
          '/'
        );
        const widget = boardWidget(url, board.logdir, trans);
        try {
          app.shell.add(widget, 'main');
          app.shell.activateById(widget.id);
        } catch {
          // Where the main area has room for one document only.
          widget.dispose();
          window.open(url, '_blank', 'noopener');
        }
      } finally {
        Notification.dismiss(starting);
      }
    };

    commands.addCommand(COMMANDS.openTensorBoard, {
      label: trans.__('TensorBoard'),
      caption: trans.__('Start TensorBoard in this job, without a port'),
      icon: tensorBoardIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            logdir: {
              type: 'string',
              description: trans.__('The folder of logs')
            },
            cwd: {
              type: 'string',
              description: trans.__('Where to look for logs')
            }
          }
        }
      },
      execute: async args => {
        try {
          const given = args['logdir'];
          const cwd = typeof args['cwd'] === 'string' ? args['cwd'] : '';
          const logdir = typeof given === 'string' ? given : await choose(cwd);
          if (logdir) {
            await open(logdir);
          }
        } catch (error) {
          const { message, hint } = error as { message: string; hint?: string };
          Notification.error([message, hint].filter(Boolean).join(' '), {
            autoClose: false
          });
        }
      }
    });
    palette?.addItem({
      command: COMMANDS.openTensorBoard,
      category: trans.__('HPC')
    });
  }
};

/** TensorBoard's page, for the main area. */
function boardWidget(
  url: string,
  logdir: string,
  trans: TranslationBundle
): MainAreaWidget<IFrame> {
  const widget = new MainAreaWidget({
    content: new IFrame({ sandbox: ALLOWED })
  });
  widget.content.url = url;
  widget.title.label = trans.__('TensorBoard');
  widget.title.caption = logdir;
  widget.title.icon = tensorBoardIcon;
  widget.title.closable = true;
  return widget;
}

async function sayMissing(
  install: string,
  trans: TranslationBundle
): Promise<void> {
  await showDialog({
    title: trans.__('TensorBoard is not installed'),
    body: trans.__(
      'The environment of this JupyterLab has no TensorBoard. To install it there, in a terminal of this session: %1',
      install
    ),
    buttons: [Dialog.okButton()]
  });
}

export default plugin;

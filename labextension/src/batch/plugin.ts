import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  Dialog,
  ICommandPalette,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import { IFileBrowserFactory } from '@jupyterlab/filebrowser';
import { INotebookTracker, type NotebookPanel } from '@jupyterlab/notebook';
import {
  ITranslator,
  nullTranslator,
  type TranslationBundle
} from '@jupyterlab/translation';

import { COMMANDS, LAB_COMMANDS } from '../commands';
import type { ISubmittedJob } from '../data/api';
import { hpcIcon } from '../icons';
import { IHpcClient } from '../tokens';
import { fromStored, toRequest } from './choices';
import { askAbout } from './dialog';
import { ClosedNotebook } from './closed';
import { editCells } from './editing';
import { readChoices, writeChoices } from './metadata';
import { isScript } from './model';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:batch',
  description: 'The button "Run as batch job" and its dialog.',
  autoStart: true,
  requires: [IHpcClient, INotebookTracker],
  optional: [ICommandPalette, IFileBrowserFactory, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    notebooks: INotebookTracker,
    palette: ICommandPalette | null,
    browsers: IFileBrowserFactory | null,
    translator: ITranslator | null
  ): void => {
    const { commands, shell, serviceManager } = app;
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');

    const selected = (): string | null => {
      const items = browsers?.tracker.currentWidget?.selectedItems() ?? [];
      const found = [...items].find(item => item.type === 'notebook');
      return found?.path ?? null;
    };
    const selectedScript = (): string | null => {
      const items = browsers?.tracker.currentWidget?.selectedItems() ?? [];
      return [...items].find(item => isScript(item.path))?.path ?? null;
    };
    /** The document of a path, or that on the screen, if it is a script in an editor. */
    const edited = (path?: string): IDocument | undefined => {
      const widgets = path ? [...shell.widgets('main')] : [shell.currentWidget];
      return (widgets as (Partial<IDocument> | null)[])
        .map(widget => widget?.context)
        .filter(context => context !== undefined)
        .map(context => ({ context }))
        .find(({ context }) => {
          const own = context.path ?? '';
          return isScript(own) && (!path || own === path);
        });
    };
    const open = async (path: string): Promise<NotebookPanel | null> => {
      await commands.execute(LAB_COMMANDS.openDocument, { path });
      return (
        notebooks.find(panel => panel.context.path === path) ??
        notebooks.currentWidget
      );
    };
    const run = async (panel: NotebookPanel, given: unknown): Promise<void> => {
      await panel.context.ready;
      if (!(await savedOrGivenUp(panel, trans))) {
        return;
      }
      const metadata = panel.context.model;
      const path = serviceManager.contents.localPath(panel.context.path);
      const stored = fromStored(given ?? readChoices(metadata));
      const { job, cell, choices } = await askAbout(
        client,
        path,
        stored,
        trans,
        edits => editCells(panel, edits, trans)
      );
      if (cell !== null) {
        shell.activateById(panel.id);
        showCell(panel, cell);
      }
      if (job) {
        announce(app, job, path, trans);
        void client.refreshJobs();
        if (isWritable(panel) && writeChoices(metadata, toRequest(choices))) {
          await panel.context.save();
        }
      }
    };

    /** The same for one that is not open; it is opened for what has to be done in it. */
    const runClosed = async (file: string, given: unknown): Promise<void> => {
      const notebook = await ClosedNotebook.read(serviceManager.contents, file);
      const path = serviceManager.contents.localPath(file);
      const { job, cell, choices } = await askAbout(
        client,
        path,
        fromStored(given ?? notebook.choices),
        trans,
        async edits => {
          const opened = await open(file);
          if (opened) {
            await opened.context.ready;
            await editCells(opened, edits, trans);
          }
        }
      );
      if (cell !== null) {
        const panel = await open(file);
        if (panel) {
          await panel.context.ready;
          showCell(panel, cell);
        }
      }
      if (job) {
        announce(app, job, path, trans);
        void client.refreshJobs();
        const stored = toRequest(choices);
        const panel = notebooks.find(({ context }) => context.path === file);
        if (!panel) {
          await notebook.keep(stored).catch(() => undefined);
        } else if (
          isWritable(panel) &&
          writeChoices(panel.context.model, stored)
        ) {
          await panel.context.save();
        }
      }
    };

    commands.addCommand(COMMANDS.submitScript, {
      label: trans.__('Submit as job…'),
      caption: trans.__('Run this script as a Slurm job'),
      icon: hpcIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            path: {
              type: 'string',
              description: trans.__('The path of the script')
            },
            origin: {
              type: 'string',
              description: trans.__(
                '“browser” for what is selected in the file browser'
              )
            },
            choices: {
              type: 'object',
              description: trans.__('What the dialog begins with')
            }
          }
        }
      },
      isEnabled: args => Boolean(args['path'] || args['origin'] || edited()),
      isVisible: args =>
        (client.session.value?.features.batch ?? true) &&
        (args['origin'] !== 'browser' || selectedScript() !== null),
      execute: async args => {
        const wanted =
          (args['path'] as string | undefined) ??
          (args['origin'] === 'browser' ? selectedScript() : null);
        const document = edited(wanted ?? undefined);
        const found = wanted ?? document?.context.path;
        if (!found || (document && !(await savedOrGivenUp(document, trans)))) {
          return;
        }
        const path = serviceManager.contents.localPath(found);
        const { job } = await askAbout(
          client,
          path,
          fromStored(args['choices']),
          trans
        );
        if (job) {
          announce(app, job, path, trans);
          void client.refreshJobs();
        }
      }
    });
    commands.addCommand(COMMANDS.submitNotebook, {
      label: trans.__('Run as batch job'),
      caption: trans.__('Run this notebook as a Slurm job'),
      icon: hpcIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            path: {
              type: 'string',
              description: trans.__('The path of the notebook')
            },
            origin: {
              type: 'string',
              description: trans.__(
                '“browser” for what is selected in the file browser'
              )
            },
            choices: {
              type: 'object',
              description: trans.__('What the dialog begins with')
            }
          }
        }
      },
      isEnabled: args =>
        Boolean(args['path'] || args['origin'] || notebooks.currentWidget),
      isVisible: () => client.session.value?.features.batch ?? true,
      execute: async args => {
        const path =
          (args['path'] as string | undefined) ??
          (args['origin'] === 'browser' ? selected() : null);
        const isPath = ({ context }: NotebookPanel): boolean =>
          context.path === path;
        const panel = path ? notebooks.find(isPath) : notebooks.currentWidget;
        if (panel) {
          await run(panel, args['choices']);
        } else if (path) {
          await runClosed(path, args['choices']);
        }
      }
    });
    for (const command of [COMMANDS.submitNotebook, COMMANDS.submitScript]) {
      palette?.addItem({ command, category: trans.__('HPC') });
    }
  }
};

/** As much of a notebook or an editor as is needed here. */
interface IDocument {
  context: {
    path: string;
    model: { dirty: boolean };
    contentsModel: { writable: boolean } | null;
    save(): Promise<void>;
  };
}

/** Whether the file may be written; not known means that it may. */
function isWritable({ context }: IDocument): boolean {
  return context.contentsModel?.writable ?? true;
}

/** The server reads the file, so what is on the screen has to be in it. */
async function savedOrGivenUp(
  document: IDocument,
  trans: TranslationBundle
): Promise<boolean> {
  const { context } = document;
  if (!context.model.dirty) {
    return true;
  }
  if (!isWritable(document)) {
    const { button } = await showDialog({
      title: trans.__('%1 cannot be written', context.path),
      body: trans.__(
        'The job runs the file as it was saved, without what you have changed since. To run your changes, save the notebook under another name first.'
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: trans.__('Run the Saved File') })
      ]
    });
    return button.accept;
  }
  const { button } = await showDialog({
    title: trans.__('Save %1?', context.path),
    body: trans.__('The job runs what is saved.'),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.okButton({ label: trans.__('Save and Go On') })
    ]
  });
  if (!button.accept) {
    return false;
  }
  await context.save();
  return !context.model.dirty;
}

/** Put the cursor on a cell, counted from 1. */
function showCell(panel: NotebookPanel, cell: number): void {
  const { content } = panel;
  content.activeCellIndex = cell - 1;
  content.deselectAll();
  content.activate();
  void content.scrollToItem(cell - 1, 'center');
}

function announce(
  app: JupyterFrontEnd,
  job: ISubmittedJob,
  path: string,
  trans: TranslationBundle
): void {
  const { job_id: id, messages } = job;
  const said = trans.__('%1 is job %2 now.', path, id);
  Notification.success([said, ...messages].join(' '), {
    autoClose: 15_000,
    actions: [
      {
        label: trans.__('Open the Job'),
        callback: () => void app.commands.execute(COMMANDS.openJob, { id })
      }
    ]
  });
}

export default plugin;

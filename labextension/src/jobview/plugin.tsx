import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  InputDialog,
  MainAreaWidget,
  WidgetTracker
} from '@jupyterlab/apputils';
import type { Contents } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import { COMMANDS, LAB_COMMANDS } from '../commands';
import type { IJobs, IJobView } from '../data/api';
import { PolledFeed } from '../data/feed';
import { hpcIcon } from '../icons';
import { IHpcClient } from '../tokens';
import { View } from '../ui/view';
import type { IBrowser, IFile } from './files';
import { JobView } from './view';

/** The server itself asks Slurm about one job every 20 seconds at most. */
const INTERVAL_MS = 20_000;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:job-view',
  description:
    'One job in the main area: overview, log, GPUs, details, script, files.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [ICommandPalette, ILabShell, ILayoutRestorer, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    palette: ICommandPalette | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const tracker = new WidgetTracker<MainAreaWidget<View>>({
      namespace: 'jupyter-hpc-jobs'
    });
    const browser = browserOf(app);

    const create = (id: string): MainAreaWidget<View> => {
      const feed = new PolledFeed<IJobView>(
        `job-${id}`,
        () => client.job(id),
        INTERVAL_MS,
        view => view.finished
      );
      const open = (other: string): void => {
        void app.commands.execute(COMMANDS.openJob, { id: other });
      };
      const content = new View(
        <JobView {...{ client, id, feed, browser, open, trans }} />
      );
      content.addClass('jp-Hpc-jobview');
      const widget = new MainAreaWidget({ content });
      widget.id = idOf(id);
      widget.title.label = trans.__('Job %1', id);
      widget.title.icon = hpcIcon;
      widget.title.closable = true;
      const onJobs = (): void => {
        if (isOutdated(feed.value, client.jobs.value)) {
          void feed.refresh();
        }
      };
      client.jobs.changed.connect(onJobs);
      widget.disposed.connect(() => {
        client.jobs.changed.disconnect(onJobs);
        feed.dispose();
      });
      return widget;
    };

    app.commands.addCommand(COMMANDS.openJob, {
      label: trans.__('Open a Job…'),
      caption: trans.__(
        'Overview, log, GPUs, details, script and files of a job'
      ),
      icon: hpcIcon,
      describedBy: {
        args: {
          type: 'object',
          properties: {
            id: { type: 'string', description: trans.__('The id of the job') }
          }
        }
      },
      execute: async args => {
        const id = (args['id'] as string) || (await askForId(client, trans));
        if (!id) {
          return;
        }
        const present = tracker.find(widget => widget.id === idOf(id));
        const widget = present ?? create(id);
        if (!present) {
          // Notebook 7 has room for one document only, so its side area takes the job.
          app.shell.add(widget, labShell ? 'main' : 'right');
          await tracker.add(widget);
        }
        app.shell.activateById(widget.id);
      }
    });
    palette?.addItem({ command: COMMANDS.openJob, category: trans.__('HPC') });
    if (restorer) {
      void restorer.restore(tracker, {
        command: COMMANDS.openJob,
        args: widget => ({ id: widget.id.slice(idOf('').length) }),
        name: widget => widget.id
      });
    }
  }
};

/** Whether the list of jobs knows another state of the job than its view. */
function isOutdated(view: IJobView | null, jobs: IJobs | null): boolean {
  if (!view || !jobs || view.finished) {
    return false;
  }
  const listed = jobs.jobs.find(job => job.id === view.job.id);
  return listed?.state !== view.job.state;
}

function idOf(job: string): string {
  return `jupyter-hpc-job-${job}`;
}

async function askForId(
  client: IHpcClient,
  trans: ReturnType<ITranslator['load']>
): Promise<string | null> {
  const { jobs, finished } = client.jobs.value ?? { jobs: [], finished: null };
  const known = [...jobs, ...(finished?.jobs ?? [])].slice(0, 200);
  const answer = known.length
    ? await InputDialog.getItem({
        title: trans.__('Open a job'),
        items: known.map(job => `${job.id} ${job.name}`),
        editable: true
      })
    : await InputDialog.getText({
        title: trans.__('Open a job'),
        label: trans.__('The id of the job')
      });
  return answer.value?.trim().split(' ')[0] ?? null;
}

/** The job's working directory through the server's own contents. */
function browserOf(app: JupyterFrontEnd): IBrowser {
  return {
    list: async (path: string): Promise<IFile[]> => {
      const folder = await app.serviceManager.contents.get(path);
      const items = folder.content as Contents.IModel[];
      return items
        .map(item => ({
          name: item.name,
          path: item.path,
          isFolder: item.type === 'directory'
        }))
        .sort((a, b) => a.name.localeCompare(b.name));
    },
    open: ({ path, isFolder }: IFile): void => {
      const command = isFolder
        ? LAB_COMMANDS.goToPath
        : LAB_COMMANDS.openDocument;
      if (app.commands.hasCommand(command)) {
        void app.commands.execute(command, { path });
      }
    }
  };
}

export default plugin;

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { saveDocuments } from '../commands';
import { IHpcClient } from '../tokens';

/** As jupyter_hpc/node/events.py has it. */
const SESSION_LEAVES =
  'https://events.jupyter.org/jupyter_hpc/session_leaves/v1';

/** How often, and for how long, the new server is asked who it is. */
const LOOK_INTERVAL_MS = 1_000;
const MAX_LOOKS = 60;

/**
 * Let go of what the page knows of the kernels before: it takes no message of another process
 * under the same id, until that has been restarted.
 */
async function renewKernels(app: JupyterFrontEnd): Promise<void> {
  const restarts: Promise<void>[] = [];
  for (const widget of app.shell.widgets('main')) {
    const { sessionContext } = widget as { sessionContext?: ISessionContext };
    if (sessionContext?.session?.kernel) {
      restarts.push(sessionContext.restartKernel());
    }
  }
  await Promise.all(restarts);
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:renew',
  description:
    'Saves when the session moves on to another job, and says that kernels are new.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');

    const arrived = async (left: string): Promise<void> => {
      for (let look = 0; look < MAX_LOOKS; look++) {
        await new Promise(resolve => setTimeout(resolve, LOOK_INTERVAL_MS));
        await client.session.refresh(true);
        const job = client.session.value?.job;
        if (job && job.id !== left) {
          await renewKernels(app).catch(error => {
            Notification.error(
              trans.__('Not all kernels could be started: %1', String(error))
            );
          });
          Notification.warning(
            trans.__(
              'This session goes on in job %1. Its kernels are new: what they knew is gone, so run the cells again that you need.',
              job.id
            ),
            { autoClose: false }
          );
          return;
        }
      }
    };
    app.serviceManager.events.stream.connect((_, event) => {
      if (event.schema_id === SESSION_LEAVES) {
        const job = event['job_id'];
        const left = typeof job === 'string' ? job : '';
        void saveDocuments(app).catch(error => {
          Notification.error(
            trans.__('Not all documents could be saved: %1', String(error))
          );
        });
        void arrived(left);
      }
    });
  }
};

export default plugin;

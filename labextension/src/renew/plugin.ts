import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { type ISessionContext, Notification } from '@jupyterlab/apputils';
import type { Kernel } from '@jupyterlab/services';
import {
  ITranslator,
  nullTranslator,
  type TranslationBundle
} from '@jupyterlab/translation';

import { saveDocuments } from '../commands';
import type { ICarriedKernel } from '../data/api';
import { IHpcClient } from '../tokens';
import { showCarried } from './carried';

/** As jupyter_hpc/node/events.py has it. */
const SESSION_LEAVES =
  'https://events.jupyter.org/jupyter_hpc/session_leaves/v1';

/** How often, and for how long, the new server is asked who it is. */
const LOOK_INTERVAL_MS = 1_000;
const MAX_LOOKS = 60;

/**
 * Connect anew to a kernel that must not be restarted, as it has the variables of the one before.
 *
 * What the page asks when it connects does not count as work of a kernel, so it would not know
 * that this one is idle; any other question tells.
 */
async function reconnect(kernel: Kernel.IKernelConnection): Promise<void> {
  await kernel.reconnect();
  await kernel.requestIsComplete({ code: '' });
}

/** Let go of what the page knows of the kernels before; each notebook says what became of it. */
async function renewKernels(
  app: JupyterFrontEnd,
  carried: readonly ICarriedKernel[],
  trans: TranslationBundle
): Promise<void> {
  const renewals: Promise<void>[] = [];
  for (const widget of app.shell.widgets('main')) {
    const { sessionContext } = widget as { sessionContext?: ISessionContext };
    const kernel = sessionContext?.session?.kernel;
    if (sessionContext && kernel) {
      const found = carried.find(({ kernel_id }) => kernel_id === kernel.id);
      const kept = found && !found.problem;
      renewals.push(kept ? reconnect(kernel) : sessionContext.restartKernel());
      if (found) {
        showCarried(widget, found, trans);
      }
    }
  }
  await Promise.all(renewals);
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:renew',
  description:
    'Saves when the session moves on to another job, and says what its new kernels know.',
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
          const { carried } = await client
            .restored()
            .catch(() => ({ carried: [] }));
          await renewKernels(app, carried, trans).catch(error => {
            Notification.error(
              trans.__('Not all kernels could be started: %1', String(error))
            );
          });
          Notification.warning(
            carried.length > 0
              ? trans.__(
                  'This session goes on in job %1. Its kernels are new; each notebook says which variables they have.',
                  job.id
                )
              : trans.__(
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

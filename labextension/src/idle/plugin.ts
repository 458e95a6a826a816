import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import {
  ITranslator,
  nullTranslator,
  type TranslationBundle
} from '@jupyterlab/translation';

import type { INotebook } from '../data/api';
import { glance } from '../data/feed';
import { Settings } from '../settings';
import { IHpcClient } from '../tokens';
import { formatBytes, formatSpan } from '../ui/format';
import { type IIdle, IdleWatch } from './watch';

interface IIdleSettings {
  minutes: number;
}

/** The server keeps count of idle time, so a look now and then is enough. */
const GLANCE_INTERVAL_MS = 60_000;

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:idle',
  description: 'Tells when a GPU of this job idles, and who holds its memory.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const settings = new Settings<IIdleSettings>(registry, plugin.id, {
      minutes: 15
    });
    const shutDown = async ({ kernel_id }: INotebook): Promise<void> => {
      try {
        await app.serviceManager.kernels.shutdown(kernel_id);
      } catch (error) {
        Notification.error(
          trans.__('The kernel could not be shut down: %1', String(error))
        );
      }
    };
    let shown = '';
    const takeBack = (): void => Notification.dismiss(shown);
    const tell = (idle: IIdle): void => {
      takeBack(); // The new one says more, or something else.
      const { holder } = idle;
      const actions = holder
        ? [
            {
              label: trans.__('Shut Down Its Kernel'),
              callback: () => void shutDown(holder)
            }
          ]
        : [];
      shown = Notification.warning(sentence(idle, trans), {
        autoClose: false,
        actions: [
          ...actions,
          { label: trans.__('Dismiss'), callback: () => undefined }
        ]
      });
    };
    const watch = new IdleWatch(tell, takeBack);

    // Without a GPU there is nothing to watch, so the first answer decides.
    const watching = glance(client.gpus, GLANCE_INTERVAL_MS);
    client.gpus.changed.connect(({ value, error }) => {
      if (value ? value.gpus.length === 0 : error && error.status !== 0) {
        watching.dispose();
      } else if (value && settings.value.minutes > 0) {
        watch.look(value, 60 * settings.value.minutes);
      }
    });
  }
};

function sentence(idle: IIdle, trans: TranslationBundle): string {
  const which = trans._n(
    'GPU %2 has been idle for %3.',
    '%1 GPUs (%2) have been idle for %3.',
    idle.gpus.length,
    idle.gpus.map(gpu => gpu.index).join(', '),
    formatSpan(idle.seconds, trans)
  );
  const who = idle.holder
    ? trans.__(
        '%1 holds %2 of its memory.',
        idle.holder.name,
        formatBytes(idle.held)
      )
    : trans.__('End the session when you no longer need it.');
  return `${which} ${who}`;
}

export default plugin;

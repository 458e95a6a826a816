import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { COMMANDS } from '../commands';
import { IHpcClient } from '../tokens';
import { KillWatch, lossLine } from './kills';

/** As jupyter_hpc/node/events.py has it. */
const OUT_OF_MEMORY = 'https://events.jupyter.org/jupyter_hpc/out_of_memory/v1';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:memory',
  description: 'Tells when a kernel was ended because the memory was full.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const watch = new KillWatch(kill => {
      const details = {
        label: trans.__('Details'),
        callback: () => void app.commands.execute(COMMANDS.showPanel)
      };
      Notification.error(lossLine(kill, trans), {
        autoClose: false,
        actions: [
          ...(app.commands.hasCommand(COMMANDS.showPanel) ? [details] : []),
          { label: trans.__('Dismiss'), callback: () => undefined }
        ]
      });
    });
    client.session.changed.connect(({ value }) => {
      if (value) {
        watch.look(value.memory_kills);
      }
    });
    app.serviceManager.events.stream.connect((_, event) => {
      if (event.schema_id === OUT_OF_MEMORY) {
        watch.begin();
        void client.session.refresh(true);
      }
    });
  }
};

export default plugin;

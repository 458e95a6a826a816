import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { COMMANDS } from '../commands';
import type { IJobs } from '../data/api';
import { Settings } from '../settings';
import { IHpcClient } from '../tokens';
import { arraysOf, changesBetween, type IChange } from './changes';

/** More changes than this at once are told in one sentence. */
const MAX_NOTICES = 3;

interface INoticeSettings {
  enabled: boolean;
}

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:job-notices',
  description: 'Tells when a job starts or ends.',
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
    const settings = new Settings<INoticeSettings>(registry, plugin.id, {
      enabled: true
    });
    let before: IJobs | null = null;
    const arrays = new Set<string>();

    const tell = (change: IChange): void => {
      const title = change.name
        ? trans.__('Job %1 (%2)', change.id, change.name)
        : trans.__('Job %1', change.id);
      const running = change.phase === 'running';
      const message = running
        ? trans.__('%1 has started.', title)
        : `${title}: ${change.text || change.state}`;
      const kind =
        running || change.state === 'COMPLETED' ? 'success' : 'warning';
      const open = (): void => {
        void app.commands.execute(COMMANDS.openJob, { id: change.id });
      };
      const actions = app.commands.hasCommand(COMMANDS.openJob)
        ? [{ label: trans.__('Open'), callback: open }]
        : [];
      Notification.emit(message, kind, { autoClose: 15_000, actions });
    };
    client.jobs.changed.connect(({ value }) => {
      const changes =
        before && value && value !== before
          ? changesBetween(before, value, arrays)
          : [];
      before = value ?? before;
      for (const array of value ? arraysOf(value) : []) {
        arrays.add(array);
      }
      if (!settings.value.enabled) {
        return;
      }
      if (changes.length <= MAX_NOTICES) {
        changes.forEach(tell);
      } else {
        Notification.info(
          trans.__('%1 jobs have started or ended.', changes.length),
          { autoClose: 15_000 }
        );
      }
    });
  }
};

export default plugin;

import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';

import { COMMANDS, saveDocuments } from '../commands';
import { glance } from '../data/feed';
import { askToRenew } from '../renew/ask';
import { timeLeft, WARNING_DEFAULTS, WARNINGS_ID } from '../session/deadline';
import { Settings } from '../settings';
import { IHpcClient, ILocalPort } from '../tokens';
import { formatSpan } from '../ui/format';
import { WarningSchedule } from './schedule';

/** The end of a job seldom moves; how long a new one may stay unnoticed. */
const GLANCE_INTERVAL_MS = 60_000;

/** How long the last warning waits for the documents to be saved. */
const SAVING_TIMEOUT_MS = 5_000;

const plugin: JupyterFrontEndPlugin<void> = {
  id: WARNINGS_ID,
  description: 'Warns before the time limit and saves at the last warning.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [ILocalPort, ISettingRegistry, ITranslator],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    port: ILocalPort | null,
    registry: ISettingRegistry | null,
    translator: ITranslator | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const settings = new Settings(registry, WARNINGS_ID, WARNING_DEFAULTS);
    let shown: string | null = null;

    const saveAll = (): Promise<void> => saveDocuments(app);
    /** Save everything, and say how that went, or goes if it takes long. */
    const savedAll = (left: string): Promise<string> =>
      Promise.race([
        saveAll().then(
          () =>
            trans.__('This session ends in %1. All documents are saved.', left),
          () =>
            trans.__(
              'This session ends in %1. Some documents could not be saved.',
              left
            )
        ),
        new Promise<string>(resolve =>
          setTimeout(
            resolve,
            SAVING_TIMEOUT_MS,
            trans.__(
              'This session ends in %1. All documents are being saved.',
              left
            )
          )
        )
      ]);
    const warn = async (minutes: number, isLast: boolean): Promise<void> => {
      const left = formatSpan(timeLeft(client) ?? 0, trans);
      const message =
        isLast && settings.value.saveAtLast
          ? await savedAll(left)
          : trans.__(
              'This session ends in %1: its job reaches the time limit.',
              left
            );
      const actions = [
        { label: trans.__('Save All'), callback: () => void saveAll() }
      ];
      if (app.commands.hasCommand(COMMANDS.submitNotebook)) {
        actions.push({
          label: trans.__('Run as Batch Job'),
          callback: () => void app.commands.execute(COMMANDS.submitNotebook)
        });
      }
      await port?.look();
      if (port?.status?.renewal) {
        actions.push({
          label: trans.__('Renew…'),
          callback: () => void askToRenew(port, trans)
        });
      }
      if (shown) {
        Notification.dismiss(shown);
      }
      shown = Notification.emit(message, minutes <= 10 ? 'error' : 'warning', {
        autoClose: false,
        actions: [
          ...actions,
          { label: trans.__('Dismiss'), callback: () => undefined }
        ]
      });
    };

    const schedule = new WarningSchedule(
      () => timeLeft(client),
      (minutes, isLast) => void warn(minutes, isLast)
    );
    const apply = (): void => {
      schedule.minutes = settings.value.minutes;
    };
    settings.changed.connect(apply);
    apply();
    const watching = glance(client.session, GLANCE_INTERVAL_MS);
    client.session.changed.connect(() => {
      schedule.check();
      if (client.session.value && !client.session.value.job) {
        watching.dispose(); // Outside of a job there is no limit to watch.
      }
    });
  }
};

export default plugin;

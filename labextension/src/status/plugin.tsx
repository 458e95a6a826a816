import type {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import { COMMANDS } from '../commands';
import { WARNING_DEFAULTS, WARNINGS_ID } from '../session/deadline';
import { Settings } from '../settings';
import { IHpcClient, ILocalPort } from '../tokens';
import { useSettings } from '../ui/hooks';
import { View } from '../ui/view';
import { type IStatusSettings, StatusItem } from './item';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:status',
  description: 'Time left and GPU load in the status bar.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [IStatusBar, ISettingRegistry, ITranslator, ILocalPort],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    statusBar: IStatusBar | null,
    registry: ISettingRegistry | null,
    translator: ITranslator | null,
    port: ILocalPort | null
  ): void => {
    if (!statusBar) {
      return;
    }
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const settings = new Settings<IStatusSettings>(registry, plugin.id, {
      showTime: true,
      showGpus: true
    });
    const warnings = new Settings(registry, WARNINGS_ID, WARNING_DEFAULTS);
    const showPanel = (): void => {
      void app.commands.execute(COMMANDS.showPanel);
    };
    const Item = (): JSX.Element => (
      <StatusItem
        client={client}
        port={port}
        trans={trans}
        onClick={showPanel}
        settings={useSettings(settings)}
        warnAt={useSettings(warnings).minutes}
      />
    );
    statusBar.registerStatusItem(plugin.id, {
      item: new View(<Item />),
      align: 'left',
      rank: 30
    });
  }
};

export default plugin;

import {
  ConnectionLost,
  IConnectionLost,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin,
  JupyterLab
} from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import * as React from 'react';

import { ILocalPort } from '../tokens';
import { View } from '../ui/view';
import { NoticeArea } from './area';
import { Notice, Waiting } from './notice';
import { LocalPort, mayBeLocal } from './port';
import { Resuming } from './resuming';
import { QuietSaves } from './saving';
import { nameTitle } from './title';

const port: JupyterFrontEndPlugin<ILocalPort> = {
  id: 'jupyter-hpc:local-port',
  description: 'Asks the local port, through which this page came, how it is.',
  autoStart: true,
  provides: ILocalPort,
  activate: (): ILocalPort => {
    const local = new LocalPort();
    local.start();
    return local;
  }
};

/**
 * Takes the place of the dialog about a lost server where the local port knows better.
 *
 * The provider that is registered last is the one that JupyterLab asks, and extensions come
 * after its own; so this one is left out where another knows more than we, as on a hub.
 */
const connectionLost: JupyterFrontEndPlugin<IConnectionLost> = {
  id: 'jupyter-hpc:connection-lost',
  description: 'No dialog about a lost server where the local port knows more.',
  autoStart: true,
  requires: [ILocalPort],
  provides: IConnectionLost,
  activate:
    (_: JupyterFrontEnd, local: ILocalPort): IConnectionLost =>
    async (manager, error, translator) => {
      await local.look();
      if (local.phase === null) {
        await ConnectionLost(manager, error, translator);
      }
    }
};

const tab: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:tab',
  description:
    'Tells in the open tab why its server is away, and starts it again.',
  autoStart: true,
  requires: [ILocalPort],
  optional: [JupyterLab.IInfo, ITranslator, IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    local: ILocalPort,
    info: JupyterLab.IInfo | null,
    translator: ITranslator | null,
    statusBar: IStatusBar | null
  ): void => {
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const resuming = new Resuming(app, local, info);
    const notice = new NoticeArea(
      <Notice
        port={local}
        resuming={resuming}
        shell={app.shell}
        trans={trans}
      />,
      'jupyter-hpc-notice'
    );
    new QuietSaves(
      local,
      name => resuming.saveLater(name),
      (translator ?? nullTranslator).load('jupyterlab')
    );
    statusBar?.registerStatusItem('jupyter-hpc:saving', {
      item: new View(
        <Waiting port={local} resuming={resuming} trans={trans} />
      ),
      align: 'left',
      rank: 31
    });
    const nameIt = nameTitle(() => local.name);
    const show = (): void => {
      nameIt();
      if (local.phase !== null && !notice.isAttached) {
        notice.addTo(app.shell);
      }
    };
    local.changed.connect(show);
    show();
  }
};

export default [port, tab, ...(mayBeLocal() ? [connectionLost] : [])];

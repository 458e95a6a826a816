import {
  ILabShell,
  ILayoutRestorer,
  type JupyterFrontEnd,
  type JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  ICommandPalette,
  MainAreaWidget,
  WidgetTracker
} from '@jupyterlab/apputils';
import { INotebookTracker } from '@jupyterlab/notebook';
import type { Contents } from '@jupyterlab/services';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { type ISignal, Signal } from '@lumino/signaling';
import * as React from 'react';

import { isScript } from '../batch/model';
import { COMMANDS } from '../commands';
import { hpcIcon } from '../icons';
import { tell } from '../jobs/actions';
import { IHpcClient } from '../tokens';
import { useSignal } from '../ui/hooks';
import { View } from '../ui/view';
import type { IFigures } from './figures';
import { type IRunsProps, RunsPage } from './page';

const ID = 'jupyter-hpc-runs';

const plugin: JupyterFrontEndPlugin<void> = {
  id: 'jupyter-hpc:runs',
  description: 'The page of all runs that were ever submitted.',
  autoStart: true,
  requires: [IHpcClient],
  optional: [
    ICommandPalette,
    ILabShell,
    ILayoutRestorer,
    INotebookTracker,
    ITranslator
  ],
  activate: (
    app: JupyterFrontEnd,
    client: IHpcClient,
    palette: ICommandPalette | null,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    notebooks: INotebookTracker | null,
    translator: ITranslator | null
  ): void => {
    const { commands, serviceManager, shell } = app;
    const trans = (translator ?? nullTranslator).load('jupyter_hpc');
    const tracker = new WidgetTracker<MainAreaWidget<View>>({
      namespace: 'jupyter-hpc-runs'
    });
    const wanted = new Wanted();
    const execute = (command: string, args: Record<string, unknown>): void => {
      if (commands.hasCommand(command)) {
        void commands.execute(command, args as never);
      }
    };

    const begin = (): void => {
      if (commands.isEnabled(COMMANDS.submitNotebook)) {
        execute(COMMANDS.submitNotebook, {});
      } else {
        tell(
          trans.__(
            'Open a notebook first; the button “Run as batch job” is in its toolbar.'
          ),
          trans
        );
      }
    };

    const create = (): MainAreaWidget<View> => {
      const content = new View(
        <Page
          wanted={wanted}
          client={client}
          baseUrl={serviceManager.serverSettings.baseUrl}
          openJob={id => execute(COMMANDS.openJob, { id })}
          submit={(path, choices) =>
            execute(
              isScript(path) ? COMMANDS.submitScript : COMMANDS.submitNotebook,
              { path, choices }
            )
          }
          begin={commands.hasCommand(COMMANDS.submitNotebook) ? begin : null}
          figures={figuresOf(serviceManager.contents)}
          trans={trans}
        />
      );
      content.addClass('jp-Hpc-runspage');
      const widget = new MainAreaWidget({ content });
      widget.id = ID;
      widget.title.label = trans.__('Runs');
      widget.title.icon = hpcIcon;
      widget.title.closable = true;
      return widget;
    };

    commands.addCommand(COMMANDS.showRuns, {
      label: args =>
        args['toolbar'] ? trans.__('Runs') : trans.__('All Runs'),
      caption: trans.__('Every batch job of your notebooks, and its results'),
      icon: args => (args['toolbar'] ? undefined : hpcIcon),
      describedBy: {
        args: {
          type: 'object',
          properties: {
            notebook: {
              type: 'string',
              description: trans.__('The notebook whose runs are shown')
            },
            origin: {
              type: 'string',
              description: trans.__('“notebook” for the current one')
            }
          }
        }
      },
      isVisible: () => client.session.value?.features.batch ?? true,
      execute: async args => {
        const named =
          args['origin'] === 'notebook'
            ? notebooks?.currentWidget?.context.path
            : (args['notebook'] as string | undefined);
        if (named !== undefined) {
          wanted.ask(named.split('/').pop() ?? '');
        }
        const present = tracker.find(() => true);
        const widget = present ?? create();
        if (!present) {
          // Notebook 7 has room for one document only, so its side area takes the page.
          shell.add(widget, labShell ? 'main' : 'right');
          await tracker.add(widget);
        }
        shell.activateById(widget.id);
        if (present) {
          await client.runs.refresh();
        }
      }
    });
    palette?.addItem({ command: COMMANDS.showRuns, category: trans.__('HPC') });
    if (restorer) {
      void restorer.restore(tracker, {
        command: COMMANDS.showRuns,
        name: () => ID
      });
    }
  }
};

/** The notebook whose runs were asked for last. */
class Wanted {
  get notebook(): string {
    return this._notebook;
  }

  get asked(): number {
    return this._asked;
  }

  ask(name: string): void {
    this._notebook = name;
    this._asked += 1;
    this._changed.emit();
  }

  get changed(): ISignal<Wanted, void> {
    return this._changed;
  }

  private _notebook = '';
  private _asked = 0;
  private readonly _changed = new Signal<Wanted, void>(this);
}

function Page(
  props: Omit<IRunsProps, 'notebook' | 'asked'> & { wanted: Wanted }
): JSX.Element {
  const { wanted, ...rest } = props;
  useSignal(wanted.changed);
  const { notebook, asked } = wanted;
  return <RunsPage {...{ notebook, asked }} {...rest} />;
}

/** The folders of runs, as far as the file browser shows them. */
function figuresOf(contents: Contents.IManager): IFigures {
  return {
    list: async path => {
      const folder = await contents.get(path);
      return (folder.content as Contents.IModel[]).map(item => ({
        name: item.name,
        path: item.path,
        isFolder: item.type === 'directory'
      }));
    },
    address: path => contents.getDownloadUrl(path)
  };
}

export default plugin;

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { ISessionContext } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { Widget } from '@lumino/widgets';

/** As much of a document's context as is needed here. */
interface IContext {
  path: string;
  model: { dirty: boolean };
  sessionContext: ISessionContext;
  save(): Promise<void>;
}

/** What may stand in the main area: a document, a console, or something else. */
type MainWidget = Widget & {
  context?: IContext;
  sessionContext?: ISessionContext;
};

/** The contexts of the documents that are open, each once. */
function contexts(shell: JupyterFrontEnd.IShell): IContext[] {
  const found = new Map<string, IContext>();
  for (const { context } of shell.widgets('main') as Iterable<MainWidget>) {
    if (context?.path && context.model) {
      found.set(context.path, context);
    }
  }
  return [...found.values()];
}

/** Names of the documents with changes that are only in this tab. */
export function unsaved(shell: JupyterFrontEnd.IShell): string[] {
  return contexts(shell)
    .filter(context => context.model.dirty)
    .map(context => PathExt.basename(context.path));
}

/**
 * Save what has changed, or `only` these documents of it; the names of what was saved and of
 * what was not.
 */
export async function saveChanged(
  shell: JupyterFrontEnd.IShell,
  only?: readonly string[]
): Promise<{ saved: string[]; failed: string[] }> {
  const saved: string[] = [];
  const failed: string[] = [];
  for (const context of contexts(shell).filter(({ model }) => model.dirty)) {
    const name = PathExt.basename(context.path);
    if (only && !only.includes(name)) {
      continue;
    }
    try {
      await context.save();
    } catch (error) {
      console.warn(`jupyter-hpc: ${context.path} was not saved`, error);
    }
    (context.model.dirty ? failed : saved).push(name);
  }
  return { saved, failed };
}

/** Documents and consoles whose kernel has gone with its server. */
export function withoutKernel(
  shell: JupyterFrontEnd.IShell
): ISessionContext[] {
  const found = new Set<ISessionContext>();
  for (const widget of shell.widgets('main') as Iterable<MainWidget>) {
    const context = widget.context?.sessionContext ?? widget.sessionContext;
    if (context && !context.session?.kernel && context.prevKernelName) {
      found.add(context);
    }
  }
  return [...found];
}

/** Give each the kind of kernel that it had. */
export async function startKernels(
  lost: readonly ISessionContext[]
): Promise<void> {
  for (const context of lost) {
    if (!context.isDisposed && !context.session?.kernel) {
      await context.changeKernel({ name: context.prevKernelName });
    }
  }
}

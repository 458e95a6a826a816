import type { IStateDB } from '@jupyterlab/statedb';
import { caretDownIcon, caretRightIcon } from '@jupyterlab/ui-components';
import { DisposableDelegate, type IDisposable } from '@lumino/disposable';
import type { Message } from '@lumino/messaging';
import { Panel, Widget } from '@lumino/widgets';

import type { IHpcPanel, IPanelSection } from '../tokens';

const FOLDED_KEY = 'jupyter-hpc:folded-sections';

/** The side panel: one scrolling column of sections that fold. */
export class HpcPanel extends Panel implements IHpcPanel {
  constructor(state: IStateDB | null) {
    super();
    this.id = 'jupyter-hpc-panel';
    this.addClass('jp-Hpc-panel');
    this._state = state;
    this._restored = this._restore();
  }

  addSection(options: IPanelSection): IDisposable {
    const section = new Section(options, () => this._remember());
    const index = this._sections.findIndex(
      other => other.options.rank > options.rank
    );
    const position = index < 0 ? this._sections.length : index;
    this._sections.splice(position, 0, section);
    this.insertWidget(position, section);
    void this._restored.then(folded => {
      section.folded = folded.has(options.id);
    });
    return new DisposableDelegate(() => {
      this._sections = this._sections.filter(other => other !== section);
      section.dispose();
    });
  }

  /** Whoever asks for the panel goes on in it with the keyboard. */
  protected override onActivateRequest(msg: Message): void {
    super.onActivateRequest(msg);
    this.node.querySelector<HTMLElement>('.jp-Hpc-section-title')?.focus();
  }

  private async _restore(): Promise<Set<string>> {
    const saved = await this._state?.fetch(FOLDED_KEY);
    return new Set(Array.isArray(saved) ? saved.map(String) : []);
  }

  private _remember(): void {
    const folded = this._sections
      .filter(section => section.folded)
      .map(section => section.options.id);
    void this._state?.save(FOLDED_KEY, folded);
  }

  private readonly _state: IStateDB | null;
  private readonly _restored: Promise<Set<string>>;
  private _sections: Section[] = [];
}

/** One section: a heading that is a button, and content that hides with it. */
class Section extends Panel {
  constructor(
    readonly options: IPanelSection,
    onToggled: () => void
  ) {
    super();
    this.addClass('jp-Hpc-section');
    this._content = options.content;
    this._content.id ||= `jupyter-hpc-section-${options.id}`;
    this._button = document.createElement('button');
    this._button.className = 'jp-Hpc-section-title';
    this._button.setAttribute('aria-controls', this._content.id);
    this._button.onclick = () => {
      this.folded = !this.folded;
      onToggled();
    };
    const heading = document.createElement('h3');
    heading.append(this._button);
    this.addWidget(new Widget({ node: heading }));
    this.addWidget(this._content);
    // Opened when it is known whether the user had folded it: nothing is asked before.
    this.folded = true;
  }

  get folded(): boolean {
    return this._content.isHidden;
  }

  set folded(folded: boolean) {
    this._content.setHidden(folded);
    this._button.setAttribute('aria-expanded', String(!folded));
    const icon = folded ? caretRightIcon : caretDownIcon;
    this._button.replaceChildren(
      icon.element({ tag: 'span' }),
      this.options.title
    );
  }

  private readonly _content: Widget;
  private readonly _button: HTMLButtonElement;
}

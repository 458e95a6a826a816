import * as React from 'react';

export interface ITab {
  id: string;
  title: string;
  content: React.ReactNode;
}

interface ITabsProps {
  label: string;
  tabs: ITab[];
}

/** Tabs as a keyboard user expects them: one stop, arrows between them. */
export function Tabs({ label, tabs }: ITabsProps): JSX.Element {
  const prefix = React.useId();
  const [current, setCurrent] = React.useState(tabs[0].id);
  const list = React.useRef<HTMLDivElement>(null);

  const onKeyDown = (event: React.KeyboardEvent): void => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step !== undefined) {
      const here = tabs.findIndex(tab => tab.id === current);
      const next = (here + step + tabs.length) % tabs.length;
      setCurrent(tabs[next].id);
      (list.current?.children[next] as HTMLElement).focus();
    }
  };
  const shown = tabs.find(tab => tab.id === current) ?? tabs[0];
  return (
    <>
      <div
        className="jp-Hpc-tabs"
        role="tablist"
        tabIndex={-1}
        aria-label={label}
        ref={list}
        onKeyDown={onKeyDown}
      >
        {tabs.map(tab => (
          <button
            key={tab.id}
            role="tab"
            id={`${prefix}-${tab.id}`}
            aria-selected={tab === shown}
            aria-controls={`${prefix}-content`}
            tabIndex={tab === shown ? 0 : -1}
            onClick={() => setCurrent(tab.id)}
          >
            {tab.title}
          </button>
        ))}
      </div>
      <div
        className="jp-Hpc-tabcontent"
        role="tabpanel"
        id={`${prefix}-content`}
        aria-labelledby={`${prefix}-${shown.id}`}
      >
        {shown.content}
      </div>
    </>
  );
}

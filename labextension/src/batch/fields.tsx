import * as React from 'react';

import type { IProblem } from '../data/api';

interface IFieldProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
  onFocus?: () => void;
  /** What is used while the field is empty. */
  placeholder?: string;
  /** What can be chosen; the person can write something else as well. */
  suggestions?: string[];
  /** With these only one of them can be chosen. */
  options?: { value: string; label: string }[];
  /** With so many rows it is a larger field, one entry in each line. */
  rows?: number;
  numeric?: boolean;
  /** It takes the whole line. */
  wide?: boolean;
  problem?: IProblem | null;
  note?: React.ReactNode;
}

/** A labelled field; what is wrong with it stands below, for eyes and screen readers. */
export function Field(props: IFieldProps): JSX.Element {
  const { label, problem = null, note, wide } = props;
  const id = React.useId();
  const described = [problem && `${id}-problem`, note && `${id}-note`];
  return (
    <div className={wide ? 'jp-Hpc-field jp-mod-wide' : 'jp-Hpc-field'}>
      <label htmlFor={id}>{label}</label>
      <Control
        {...props}
        id={id}
        described={described.filter(Boolean).join(' ') || undefined}
      />
      {note && (
        <small id={`${id}-note`} className="jp-Hpc-quiet">
          {note}
        </small>
      )}
      {problem && (
        <small id={`${id}-problem`} className="jp-Hpc-wrong" role="alert">
          {problem.message} {problem.hint}
        </small>
      )}
    </div>
  );
}

interface IControlProps extends IFieldProps {
  id: string;
  described: string | undefined;
}

function Control(props: IControlProps): JSX.Element {
  const { id, value, onChange, options, suggestions, placeholder } = props;
  const common = {
    id,
    value,
    'aria-invalid': props.problem ? true : undefined,
    'aria-describedby': props.described,
    onFocus: props.onFocus,
    onChange: (
      event: React.ChangeEvent<
        HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement
      >
    ) => onChange(event.target.value)
  };
  if (options) {
    return (
      <select className="jp-mod-styled" {...common}>
        {options.map(option => (
          <option key={option.value} value={option.value}>
            {option.label}
          </option>
        ))}
      </select>
    );
  }
  if (props.rows) {
    return (
      <textarea
        className="jp-mod-styled"
        rows={props.rows}
        spellCheck={false}
        placeholder={placeholder}
        {...common}
      />
    );
  }
  return (
    <>
      <input
        className="jp-mod-styled"
        spellCheck={false}
        autoComplete="off"
        placeholder={placeholder}
        inputMode={props.numeric ? 'numeric' : undefined}
        list={suggestions?.length ? `${id}-list` : undefined}
        {...common}
      />
      {suggestions && suggestions.length > 0 && (
        <datalist id={`${id}-list`}>
          {suggestions.map(each => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </>
  );
}

interface IGroupProps {
  title: string;
  /** Folded at first where it is seldom needed. */
  folded?: boolean;
  children: React.ReactNode;
}

/** Fields that belong together; what somebody has unfolded stays so. */
export function Group({ title, folded, children }: IGroupProps): JSX.Element {
  const details = React.useRef<HTMLDetailsElement>(null);
  const [open] = React.useState(!folded);
  React.useEffect(() => {
    if (!folded && details.current) {
      details.current.open = true;
    }
  }, [folded]);
  if (folded === undefined) {
    return (
      <fieldset className="jp-Hpc-group">
        <legend>{title}</legend>
        <div className="jp-Hpc-fields">{children}</div>
      </fieldset>
    );
  }
  return (
    <details className="jp-Hpc-group" ref={details} open={open}>
      <summary>{title}</summary>
      <div className="jp-Hpc-fields">{children}</div>
    </details>
  );
}

import * as React from 'react';

/** Above this share of its limit a bar is drawn as a warning. */
const WARN_SHARE = 0.9;

interface IBarProps {
  label: string;
  /** What the numbers say, also for those who cannot see the bar. */
  text: string;
  /** 0 to 1; null leaves the bar out. */
  share: number | null;
  warn?: boolean;
}

/** A labelled bar with its numbers in words. */
export function Bar({ label, text, share, warn }: IBarProps): JSX.Element {
  const filled = share === null ? null : Math.min(1, Math.max(0, share));
  const warned = warn ?? (filled !== null && filled >= WARN_SHARE);
  return (
    <div className={`jp-Hpc-bar${warned ? ' jp-mod-warn' : ''}`}>
      <span className="jp-Hpc-bar-label">{label}</span>
      <span className="jp-Hpc-bar-text">{text}</span>
      {filled !== null && (
        <div
          className="jp-Hpc-bar-track"
          role="meter"
          aria-label={label}
          aria-valuemin={0}
          aria-valuemax={100}
          aria-valuenow={Math.round(100 * filled)}
          aria-valuetext={text}
        >
          <div style={{ width: `${100 * filled}%` }} />
        </div>
      )}
    </div>
  );
}

import type { ISignal } from '@lumino/signaling';
import * as React from 'react';

import { glance, type IFeed } from '../data/feed';
import type { Settings } from '../settings';

/** Whether the widget around a component can be seen; hidden ones ask for nothing. */
export const VisibleContext = React.createContext(true);

/** Watch a feed while the component can be seen; it renders again after every change. */
export function useFeed<T>(feed: IFeed<T>): IFeed<T> {
  const visible = React.useContext(VisibleContext);
  const [, render] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    if (!visible) {
      return;
    }
    const onChanged = (): void => render();
    feed.changed.connect(onChanged);
    const handle = feed.watch();
    render();
    return () => {
      handle.dispose();
      feed.changed.disconnect(onChanged);
    };
  }, [feed, visible]);
  return feed;
}

/**
 * Know a feed without having every change pushed: asked for when its value is older
 * than `milliseconds`, while the component can be seen.
 */
export function useGlance<T>(feed: IFeed<T>, milliseconds: number): IFeed<T> {
  const visible = React.useContext(VisibleContext);
  const [, render] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    if (!visible) {
      return;
    }
    const onChanged = (): void => render();
    feed.changed.connect(onChanged);
    const handle = glance(feed, milliseconds);
    return () => {
      handle.dispose();
      feed.changed.disconnect(onChanged);
    };
  }, [feed, milliseconds, visible]);
  return feed;
}

/** Render again every `milliseconds` while the component can be seen. */
export function useTick(milliseconds: number): void {
  const visible = React.useContext(VisibleContext);
  const [, render] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    if (!visible) {
      return;
    }
    const timer = window.setInterval(render, milliseconds);
    return () => window.clearInterval(timer);
  }, [milliseconds, visible]);
}

/** The width of an element in CSS pixels, followed while it is mounted. */
export function useWidth<E extends Element>(): [React.RefObject<E>, number] {
  const ref = React.useRef<E>(null);
  const [width, setWidth] = React.useState(0);
  React.useEffect(() => {
    const element = ref.current;
    if (!element) {
      return;
    }
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return [ref, width];
}

/** The settings of a plugin; renders again when the user changes them. */
export function useSettings<T extends object>(settings: Settings<T>): T {
  const [value, setValue] = React.useState(settings.value);
  React.useEffect(() => {
    const onChanged = (): void => setValue(settings.value);
    onChanged();
    settings.changed.connect(onChanged);
    return () => {
      settings.changed.disconnect(onChanged);
    };
  }, [settings]);
  return value;
}

/** Render again after every signal; null is one that never comes. */
export function useSignal(signal: ISignal<unknown, void> | null): void {
  const [, render] = React.useReducer((count: number) => count + 1, 0);
  React.useEffect(() => {
    if (!signal) {
      return;
    }
    const onSignal = (): void => render();
    signal.connect(onSignal);
    render(); // It may have come between the first look and now.
    return () => {
      signal.disconnect(onSignal);
    };
  }, [signal]);
}

/** A region that scrolls: it has a name, and is reached by keyboard, or its end could not be read without a mouse. */
import type { ComponentChildren } from 'preact';

export function Scroll({
  label,
  kind = '',
  children,
}: {
  readonly label: string;
  /** Further classes. */
  readonly kind?: string;
  readonly children: ComponentChildren;
}) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: see above
    <section class={`scroll ${kind}`} aria-label={label} tabIndex={0}>
      {children}
    </section>
  );
}

/** What happens in the training of a task, for those who show it. */

export type TrainingEvent =
  | {
      readonly type: 'saved';
      readonly checkpoint: string;
      readonly step: number;
      readonly ms: number;
      readonly bytes: number;
    }
  | { readonly type: 'save-failed'; readonly why: string }
  | {
      readonly type: 'recovered';
      readonly ms: number;
      /** The duration of each phase in milliseconds. */
      readonly phases: Readonly<Record<string, number>>;
      readonly lost: readonly string[];
      /** What was restored, as text; undefined: nothing. */
      readonly restored: string | undefined;
    }
  | { readonly type: 'exported'; readonly step: number; readonly path: string; readonly ms: number }
  | {
      readonly type: 'evaluated';
      readonly step: number;
      readonly results: Readonly<Record<string, number>>;
    };

export type TrainingEventListener = (event: TrainingEvent) => void;

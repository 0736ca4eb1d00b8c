/** Where the exports of a job are published. */
export interface PublishingOptions {
  /** Where serving processes accept versions (`shoal serve --publish_port`), as `host:port`. */
  readonly to: readonly string[];
  /** The model; default: the only one of each process. */
  readonly model?: string;
  /** How long a publication may take; default: 600. */
  readonly deadlineSecs?: number;
  /** How long the job waits at its end until all processes have the last version; default: 60. */
  readonly waitSecs?: number;
  /** The directory of the certificates; default: SHOAL_PUBLISH_CERTS. Without one the token in SHOAL_PUBLISH_TOKEN is used. */
  readonly certs?: string;
}

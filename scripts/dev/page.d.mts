/** Builds the page into DIST/page; default: that of the checkout. */
export declare function buildPage(dist?: string): Promise<void>;

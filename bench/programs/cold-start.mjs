import { readFileSync } from 'node:fs';
import { Session, tf } from '../../dist/bundle/index.js';

const y = tf.constant([1, 2, 3]).add([4, 5, 6]);
const session = Session.open();
session.runSync(y);
const rss = /VmRSS:\s+(\d+)/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1];
console.log(Number(rss) / 1024);

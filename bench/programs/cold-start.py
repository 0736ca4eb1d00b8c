import re
import tensorflow as tf

with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    y = tf.constant([1.0, 2, 3]) + tf.constant([4.0, 5, 6])
    session.run(y)
    rss = re.search(r"VmRSS:\s+(\d+)", open("/proc/self/status").read()).group(1)
    print(int(rss) / 1024, flush=True)

"""Walking, selecting, copying and rewiring parts of a graph, as `tf.contrib.graph_editor` does.

Own code, from the documented behaviour: TensorFlow 2 has no successor.
"""

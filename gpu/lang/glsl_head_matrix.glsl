#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require

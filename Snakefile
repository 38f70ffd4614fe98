# The entry point from the root: everything is in workflow/Snakefile. An include does not hand on its default target,
# so that the root needs a first rule of its own.


rule everything:
    default_target: True
    input:
        lambda wildcards: rules.all.input,


include: "workflow/Snakefile"

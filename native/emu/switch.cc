// simt_switch(save, load): stores this fiber's stack pointer and goes on with another's. Callee-saved registers
// only: to the compiler it is a call.
#if defined(__APPLE__)
#define SYMBOL "_simt_switch"
#define HIDDEN ".private_extern " SYMBOL "\n"
#else
#define SYMBOL "simt_switch"
#define HIDDEN ".hidden " SYMBOL "\n.type " SYMBOL ",%function\n"
#endif

#if defined(__x86_64__)
asm(".text\n.globl " SYMBOL "\n" HIDDEN SYMBOL R"(:
	push %rbp
	push %rbx
	push %r12
	push %r13
	push %r14
	push %r15
	mov %rsp, (%rdi)
	mov (%rsi), %rsp
	pop %r15
	pop %r14
	pop %r13
	pop %r12
	pop %rbx
	pop %rbp
	ret
)");
#elif defined(__aarch64__)
asm(".text\n.p2align 2\n.globl " SYMBOL "\n" HIDDEN SYMBOL R"(:
	sub sp, sp, #160
	stp x19, x20, [sp, #0]
	stp x21, x22, [sp, #16]
	stp x23, x24, [sp, #32]
	stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]
	stp x29, x30, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mov x9, sp
	str x9, [x0]
	ldr x9, [x1]
	mov sp, x9
	ldp x19, x20, [sp, #0]
	ldp x21, x22, [sp, #16]
	ldp x23, x24, [sp, #32]
	ldp x25, x26, [sp, #48]
	ldp x27, x28, [sp, #64]
	ldp x29, x30, [sp, #80]
	ldp d8, d9, [sp, #96]
	ldp d10, d11, [sp, #112]
	ldp d12, d13, [sp, #128]
	ldp d14, d15, [sp, #144]
	add sp, sp, #160
	ret
)");
#endif

# Timed waits with an absolute deadline, told to the kernel in true time.
#
# The C library makes a deadline of its clock, which we have skewed, and the kernel compares it with its own, which we
# have not: without this, a clock that is 30 s ahead makes every timed wait 30 s too long, and one behind makes them
# return at once, for ever. Every `mov eax, 202; syscall` of the library (futex) becomes `jmp` to a thunk that calls
# `wait` here; the `syscall` behind the jump stays, so that a thread which waits in it, and restarts it, is undisturbed.
#
# Lives in the unused end of the library's text mapping; see functions.S for how it is kept.

        .intel_syntax noprefix
        .text
        .set    SYS_futex, 202
        .set    SYS_clock_gettime, 228
        .set    FUTEX_CMD_MASK, 0x7f
        .set    FUTEX_LOCK_PI, 6                # always of the wall clock
        .set    FUTEX_WAIT_BITSET, 9
        .set    FUTEX_WAIT_REQUEUE_PI, 11
        .set    FUTEX_LOCK_PI2, 13
        .set    FUTEX_CLOCK_REALTIME, 256

head:
        .ascii  "FPWAITS1"
skewed: .quad   0                               # address of `skewed` in the vDSO's copy
slow:   .quad   0, 0                            # 1/rate - 1 of the wall and of the monotonic clock, signed 32.32
        .quad   0                               # sites, filled by who installs this: their number,
        .short  wait - head                     # and where the parts are
        .short  thunks - head
        .balign 8

wait:                                           # called by a thunk with the registers of the system call
        test    r10, r10
        jz      1f
        mov     eax, esi
        and     eax, FUTEX_CMD_MASK
        cmp     eax, FUTEX_WAIT_BITSET
        je      2f
        cmp     eax, FUTEX_WAIT_REQUEUE_PI
        je      2f
        cmp     eax, FUTEX_LOCK_PI2
        je      2f
        cmp     eax, FUTEX_LOCK_PI
        je      2f
1:      mov     eax, SYS_futex                  # no deadline, or a wait of so long: as it is
        syscall
        ret
2:      mov     rcx, [r10]
        shr     rcx, 33
        jnz     1b                              # "for ever", or no time at all
        push    rbx
        push    rbp
        push    rdi
        push    rsi
        push    rdx
        push    r10
        push    r8
        push    r9
        sub     rsp, 24
        xor     ebx, ebx                        # 0: wall clock
        cmp     eax, FUTEX_LOCK_PI
        je      3f
        test    esi, FUTEX_CLOCK_REALTIME
        jnz     3f
        inc     ebx                             # 1: monotonic clock; its number is 1 as well
3:      mov     edi, ebx
        mov     rsi, rsp
        mov     eax, SYS_clock_gettime          # not by the vDSO: here no register may change but rax, rcx and r11
        syscall
        imul    rbp, [rsp], 1000000000
        add     rbp, [rsp + 8]                  # rbp: true now
        mov     rdi, rbp
        mov     esi, ebx
        call    [rip + skewed]
        mov     rcx, [rsp + 40]                 # the caller's r10, above 24 bytes, r9 and r8
        imul    rdx, [rcx], 1000000000
        add     rdx, [rcx + 8]
        sub     rdx, rax
        mov     rax, rdx                        # left by the process's own clock ...
        add     rbp, rax
        lea     rcx, [rip + slow]
        imul    qword ptr [rcx + rbx*8]
        shrd    rax, rdx, 32                    # ... and what that differs from true time
        add     rax, rbp
        xor     edx, edx
        test    rax, rax
        cmovs   rax, rdx
        mov     ecx, 1000000000
        div     rcx
        mov     [rsp], rax
        mov     [rsp + 8], rdx
        mov     r9, [rsp + 24]
        mov     r8, [rsp + 32]
        mov     rdx, [rsp + 48]
        mov     rsi, [rsp + 56]
        mov     rdi, [rsp + 64]
        mov     r10, rsp
        mov     eax, SYS_futex
        syscall
        add     rsp, 24
        pop     r9
        pop     r8
        pop     r10
        pop     rdx
        pop     rsi
        pop     rdi
        pop     rbp
        pop     rbx
        ret
        .balign 16
thunks:

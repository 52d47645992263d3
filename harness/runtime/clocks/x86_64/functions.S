# The clock functions that take the place of the vDSO's, inside one process's own copy of the vDSO's pages.
#
# Position independent: every address is relative to `head`. Assembled when they change, kept as functions.hex, so that
# no machine needs an assembler; a test assembles them again and compares. Intel syntax, System V ABI.
#
# A process's clock shows, of the true time t in ns:
#     t + offset + (t - base) * rate + (delta if 0 <= t - base < length and (t - base) / period is even)
# The strobe runs in here, so that it has the same phase in every process of a node and ends by itself.
#
# The settings stand in a ring of four. A writer fills the next place and then stores `turn`, one byte, which the
# processor does at once; a reader looks at `turn` before and after. So no reader ever sees half of a change, none waits
# for a lock, and a writer that dies leaves nothing half done.

        .intel_syntax noprefix
        .text
        .set    SYS_gettimeofday, 96
        .set    SYS_clock_gettime, 228
        .set    FAMILY_BYTES, 48                # six quadwords
        .set    PLACE_BYTES, 2*FAMILY_BYTES     # wall clock, monotonic clock
        .set    WALL_CLOCKS, 0x921              # 0 REALTIME, 5 _COARSE, 8 _ALARM, 11 TAI
        .set    MONOTONIC_CLOCKS, 0x2d2         # 1 MONOTONIC, 4 _RAW, 6 _COARSE, 7 BOOTTIME, 9 _ALARM

head:
        .ascii  "FPCLOCK1"                      # by this a later writer knows its own
hooks:  .zero   3*16                            # clock_gettime, gettimeofday, time: address, first 8 bytes as they were
        .byte   0                               # armed: 1 while the three entries lead here
turn:   .byte   0
        .byte   0, 0
        .short  clock_gettime - head            # where the parts are, for who installs this
        .short  gettimeofday - head
        .short  time - head
        .short  skewed - head
        .short  real - head
        .short  ring - head
ring:   .zero   4*PLACE_BYTES                   # place = turn & 3; each family: base, offset, rate (signed 32.32),
                                                # period (0: no strobe), delta, length

clock_gettime:                                  # edi: clock, rsi: struct timespec *
        cmp     edi, 11
        ja      real                            # processor time, dynamic and auxiliary clocks stay as they are
        mov     eax, WALL_CLOCKS
        lea     r8, [rip + ring]
        bt      eax, edi
        jc      1f
        mov     eax, MONOTONIC_CLOCKS
        add     r8, FAMILY_BYTES
        bt      eax, edi
        jnc     real
1:      push    rbx
        push    r12
        push    r13
        sub     rsp, 16                         # a timespec of our own: the caller's never holds true time
        mov     r12, rsi
        mov     r13, r8
        mov     rsi, rsp
        call    real
        test    eax, eax
        jnz     2f
        imul    r9, [rsp], 1000000000
        add     r9, [rsp + 8]
        call    apply
        mov     rax, r11
        xor     edx, edx
        mov     ecx, 1000000000
        div     rcx
        mov     [r12], rax
        mov     [r12 + 8], rdx
        xor     eax, eax
2:      add     rsp, 16
        pop     r13
        pop     r12
        pop     rbx
        ret

apply:                                          # r9: true ns, r13: the family in place 0 -> r11: what the clock shows;
                                                # uses rax rbx rcx rdx r8 r10
1:      movzx   ebx, byte ptr [rip + turn]
        mov     ecx, ebx
        and     ecx, 3
        imul    ecx, ecx, PLACE_BYTES
        add     rcx, r13
        mov     r10, r9
        sub     r10, [rcx]                      # since base
        mov     rax, r10
        imul    qword ptr [rcx + 16]
        shrd    rax, rdx, 32
        add     rax, r9
        add     rax, [rcx + 8]
        mov     r11, rax
        mov     r8, [rcx + 24]
        test    r8, r8
        jz      2f
        cmp     r10, [rcx + 40]                 # unsigned: before base is beyond the length as well
        jae     2f
        mov     rax, r10
        xor     edx, edx
        div     r8
        test    al, 1
        jnz     2f
        add     r11, [rcx + 32]
2:      cmp     bl, byte ptr [rip + turn]
        jne     1b
        xor     edx, edx
        test    r11, r11
        cmovs   r11, rdx                        # no time before zero
        ret

skewed:                                         # rdi: true ns, esi: 0 wall, 1 monotonic -> rax: what the clock shows
        push    rbx
        push    r13
        mov     r9, rdi
        imul    esi, esi, FAMILY_BYTES
        lea     r13, [rip + ring]
        add     r13, rsi
        call    apply
        mov     rax, r11
        pop     r13
        pop     rbx
        ret

gettimeofday:                                   # rdi: struct timeval * or 0, rsi: struct timezone * or 0
        push    rbx
        push    r12
        sub     rsp, 24
        mov     rbx, rdi
        mov     r12, rsi
        test    rdi, rdi
        jz      1f
        xor     edi, edi
        mov     rsi, rsp
        call    clock_gettime
        test    eax, eax
        jnz     3f
        mov     rax, [rsp]
        mov     [rbx], rax
        mov     rax, [rsp + 8]
        xor     edx, edx
        mov     ecx, 1000
        div     rcx
        mov     [rbx + 8], rax
1:      test    r12, r12
        jz      2f
        xor     edi, edi
        mov     rsi, r12
        mov     eax, SYS_gettimeofday           # the zone alone
        syscall
2:      xor     eax, eax
3:      add     rsp, 24
        pop     r12
        pop     rbx
        ret

time:                                           # rdi: time_t * or 0
        push    rbx
        sub     rsp, 16
        mov     rbx, rdi
        mov     edi, 5                          # the coarse clock's second, as the kernel's own does it
        mov     rsi, rsp
        call    clock_gettime
        mov     rax, [rsp]
        test    rbx, rbx
        jz      1f
        mov     [rbx], rax
1:      add     rsp, 16
        pop     rbx
        ret

        .balign 8
real:                                           # true time: this system call, unless the first instructions of the
        mov     eax, SYS_clock_gettime          # vDSO's own function and a jump to its rest are put here
        syscall
        ret
        .org    real + 48, 0xcc

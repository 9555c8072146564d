/* Rust's standard library takes ProcessPrng from bcryptprimitives.dll, which the wine of Debian 12 does not have.
   The checks build this into such a library and name its folder in WINEPATH. */
#include <windows.h>

BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE buffer, SIZE_T length) {
    return SystemFunction036(buffer, (ULONG)length);
}

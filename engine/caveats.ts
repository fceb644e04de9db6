/** What people must know about every figure of this project. */
export const NO_APPLE_FIGURES =
  "no figure of this project was measured on Apple hardware: its Metal kernels were run by an emulator";

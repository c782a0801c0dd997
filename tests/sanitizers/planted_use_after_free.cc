// AddressSanitizer must end this program.
int main() {
  volatile char* bytes = new char[16];
  delete[] bytes;
  return bytes[0];
}

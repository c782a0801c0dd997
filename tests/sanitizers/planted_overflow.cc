// UndefinedBehaviorSanitizer must end this program.
#include <limits>

int main(int argc, char** argv) {
  return std::numeric_limits<int>::max() + argc == 0;
}

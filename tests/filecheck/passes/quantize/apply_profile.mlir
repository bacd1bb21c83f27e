// RUN: glow-profile %s --random 0 --batches 2 --backend interpreter -o %t.yaml
// RUN: glow-opt %s -p 'glow-apply-profile{profile="%t.yaml"}' | filecheck %s

glow.placeholder @x input : tensor<64xf32>
glow.placeholder @y output : tensor<64xf32>
glow.func @main {
  // CHECK: glow.get @x {range = array<f64: -{{[12].*}}, {{[23].*}}>}
  %x = glow.get @x : tensor<64xf32>
  // CHECK-NEXT: glow.sigmoid %x {range = array<f64: 0.000000e+00, 0.88{{.*}}>}
  %s = glow.sigmoid %x : (tensor<64xf32>) -> tensor<64xf32>
  glow.save %s to @y : tensor<64xf32>
}
